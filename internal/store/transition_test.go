package store_test

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

var (
	noon   = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	holder = core.Holder{Attempt: 2, Node: "node-a", Epoch: 7}
	other  = core.Holder{Attempt: 3, Node: "node-b", Epoch: 9}
)

// record is a job in its second attempt, in the given state.
func record(state core.State, change ...func(*core.Job)) *core.Job {
	j := &core.Job{ID: "job-1", State: state, Holder: holder, Token: "t.2"}
	j.BeginAttempt(noon)
	if state == core.StateRetrying {
		j.Owner, j.Retry = "o.1", noon.Add(time.Second)
	}
	for _, c := range change {
		c(j)
	}
	return j
}

// TestTransitionOutcomes lists who may apply which event to a record, independently of the code that decides it.
func TestTransitionOutcomes(t *testing.T) {
	t.Parallel()
	dispatched, retrying := record(core.StateDispatched), record(core.StateRetrying)
	done := record(core.StateDone)
	cancelled := record(core.StateCancelled)
	failed := record(core.StateFailed, func(j *core.Job) { j.Reason = core.ReasonMaxRetry })
	with := func(h core.Holder, change func(*core.Holder)) core.Holder {
		change(&h)
		return h
	}
	oldAttempt := with(holder, func(h *core.Holder) { h.Attempt = 1 })
	newAttempt := with(holder, func(h *core.Holder) { h.Attempt = 3 })
	otherNode := with(holder, func(h *core.Holder) { h.Node = "node-z" })
	oldEpoch := with(holder, func(h *core.Holder) { h.Epoch = 6 })
	newEpoch := with(holder, func(h *core.Holder) { h.Epoch = 8 })
	anyEpoch := with(holder, func(h *core.Holder) { h.Epoch = 0 })

	for _, c := range []struct {
		name string
		job  *core.Job
		p    store.ApplyParams
		want store.Outcome
	}{
		{"a result from the holder", dispatched, store.ApplyParams{Event: core.EventDone, Holder: holder}, store.Decided},
		{"a result that names no epoch", dispatched, store.ApplyParams{Event: core.EventDone, Holder: anyEpoch}, store.Decided},
		{"a result of an old attempt", dispatched, store.ApplyParams{Event: core.EventDone, Holder: oldAttempt}, store.StaleAttempt},
		{"a result of an attempt that never was", dispatched, store.ApplyParams{Event: core.EventDone, Holder: newAttempt}, store.StaleAttempt},
		{"a result from another node", dispatched, store.ApplyParams{Event: core.EventDone, Holder: otherNode}, store.NotHolder},
		{"a result of an earlier epoch", dispatched, store.ApplyParams{Event: core.EventDone, Holder: oldEpoch}, store.HolderStaleEpoch},
		{"a late result before the job has moved", retrying, store.ApplyParams{Event: core.EventDone, Holder: holder}, store.Decided},
		{"a result twice", done, store.ApplyParams{Event: core.EventDone, Holder: holder}, store.Repeated},
		{"a result twice, after the node has registered again", done, store.ApplyParams{Event: core.EventDone, Holder: newEpoch}, store.Repeated},
		{"a result twice, from an earlier epoch", done, store.ApplyParams{Event: core.EventDone, Holder: oldEpoch}, store.HolderStaleEpoch},
		{"a first result of a later epoch", dispatched, store.ApplyParams{Event: core.EventDone, Holder: newEpoch}, store.HolderStaleEpoch},
		{"a result of an old attempt after the end", done, store.ApplyParams{Event: core.EventDone, Holder: oldAttempt}, store.StaleAttempt},
		{"a result after a cancel", cancelled, store.ApplyParams{Event: core.EventDone, Holder: holder}, store.Ended},
		{"a cancel", dispatched, store.ApplyParams{Event: core.EventCancel, AnyHolder: true}, store.Decided},
		{"a cancel during a retry", retrying, store.ApplyParams{Event: core.EventCancel, AnyHolder: true}, store.Decided},
		{"a cancel twice", cancelled, store.ApplyParams{Event: core.EventCancel, AnyHolder: true}, store.Repeated},
		{"a cancel after the result", done, store.ApplyParams{Event: core.EventCancel, AnyHolder: true}, store.Ended},
		{"a retry", dispatched, store.ApplyParams{Event: core.EventRetry, Holder: holder, Owner: "o.1"}, store.Decided},
		{"a retry of an old attempt", dispatched, store.ApplyParams{Event: core.EventRetry, Holder: oldAttempt, Owner: "o.1"}, store.StaleAttempt},
		{"a retry repeated by its owner", retrying, store.ApplyParams{Event: core.EventRetry, Holder: holder, Owner: "o.1"}, store.Repeated},
		{"a retry of another owner", retrying, store.ApplyParams{Event: core.EventRetry, Holder: holder, Owner: "o.2"}, store.Illegal},
		{"a move by the retry's owner", retrying, store.ApplyParams{Event: core.EventMove, Holder: holder, Owner: "o.1", To: other, Token: "t.3"}, store.Decided},
		{"a move by another owner", retrying, store.ApplyParams{Event: core.EventMove, Holder: holder, Owner: "o.2", To: other, Token: "t.3"}, store.Owned},
		{"a move repeated", record(core.StateDispatched, func(j *core.Job) { j.Holder, j.Token = other, "t.3" }),
			store.ApplyParams{Event: core.EventMove, Holder: holder, Owner: "o.1", To: other, Token: "t.3"}, store.Repeated},
		{"a takeover in the owner's time", retrying, store.ApplyParams{Event: core.EventTakeover, Holder: holder, Owner: "o.2"}, store.Owned},
		{"a renewal", retrying, store.ApplyParams{Event: core.EventTakeover, Holder: holder, Owner: "o.1"}, store.Decided},
		{"a takeover of a job that is not retrying", dispatched, store.ApplyParams{Event: core.EventTakeover, Holder: holder, Owner: "o.2"}, store.Illegal},
		{"a failure by the owner", retrying, store.ApplyParams{Event: core.EventFail, Holder: holder, Owner: "o.1"}, store.Decided},
		{"a failure by another owner", retrying, store.ApplyParams{Event: core.EventFail, Holder: holder, Owner: "o.2"}, store.Owned},
		{"a failure for any holder", retrying, store.ApplyParams{Event: core.EventFail, AnyHolder: true}, store.Decided},
		{"a failure twice", failed, store.ApplyParams{Event: core.EventFail, Holder: holder, Reason: core.ReasonMaxRetry}, store.Repeated},
		{"a failure for another reason", failed, store.ApplyParams{Event: core.EventFail, Holder: holder, Reason: core.ReasonDeadline}, store.Ended},
		{"a rebind", dispatched, store.ApplyParams{Event: core.EventRebind, Holder: anyEpoch, To: with(holder, func(h *core.Holder) { h.Epoch = 8 })}, store.Decided},
		{"a rebind twice", dispatched, store.ApplyParams{Event: core.EventRebind, Holder: anyEpoch, To: holder}, store.Repeated},
		{"a rebind of another node's job", dispatched, store.ApplyParams{Event: core.EventRebind, Holder: otherNode, To: otherNode}, store.NotHolder},
		{"a rebind after the end", done, store.ApplyParams{Event: core.EventRebind, Holder: anyEpoch, To: other}, store.Ended},
		{"an event that is never stored", dispatched, store.ApplyParams{Event: core.EventReserve, AnyHolder: true}, store.Illegal},
	} {
		before := c.job.Clone()
		next, got := store.Transition(c.job, &c.p, noon)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if c.job.State != before.State || c.job.Holder != before.Holder || len(c.job.History) != len(before.History) {
			t.Errorf("%s: the record itself was changed", c.name)
		}
		if got != store.Decided && (next.State != c.job.State || next.Holder != c.job.Holder) {
			t.Errorf("%s: refused, but the answer differs from the record", c.name)
		}
	}
}

// TestTakeoverAtRetryDeadline: a retry belongs to its owner until exactly its deadline.
func TestTakeoverAtRetryDeadline(t *testing.T) {
	t.Parallel()
	job := record(core.StateRetrying)
	take := store.ApplyParams{Event: core.EventTakeover, Holder: holder, Owner: "o.2", RetryFor: time.Minute}
	if _, got := store.Transition(job, &take, job.Retry.Add(-1)); got != store.Owned {
		t.Errorf("just before the deadline: %s, want owned", got)
	}
	next, got := store.Transition(job, &take, job.Retry)
	if got != store.Decided || next.Owner != "o.2" || !next.Retry.Equal(job.Retry.Add(time.Minute)) {
		t.Errorf("at the deadline: %s, owner %s until %v", got, next.Owner, next.Retry)
	}
}

// TestTransitionHistory: every attempt keeps the time and the reason of its own end.
func TestTransitionHistory(t *testing.T) {
	t.Parallel()
	job := record(core.StateDispatched)
	steps := []store.ApplyParams{
		{Event: core.EventRetry, Holder: holder, Owner: "o.1", RetryFor: time.Second, Reason: core.ReasonACKTimeout, Detail: "d"},
		{Event: core.EventMove, Holder: holder, Owner: "o.1", To: other, Token: "t.3", Reason: core.ReasonNodeLost},
		{Event: core.EventDone, Holder: other, Result: []byte(`{}`)},
	}
	for i, p := range steps {
		next, got := store.Transition(job, &p, noon.Add(time.Duration(i+1)*time.Second))
		if got != store.Decided {
			t.Fatalf("%s: %s", p.Event, got)
		}
		job = next
	}
	if len(job.History) != 2 {
		t.Fatalf("history: %+v, want two attempts", job.History)
	}
	first, second := job.History[0], job.History[1]
	if first.Reason != core.ReasonACKTimeout || !first.Ended.Equal(noon.Add(time.Second)) {
		t.Errorf("the first attempt ended at %v for %s: a later event rewrote it", first.Ended, first.Reason)
	}
	if second.Holder != other || second.Token != "t.3" || second.Reason != "" || !second.Ended.Equal(noon.Add(3*time.Second)) {
		t.Errorf("the second attempt: %+v", second)
	}
	if job.Reason != "" || job.Owner != "" || !job.Retry.IsZero() || string(job.Result) != "{}" {
		t.Errorf("the ended job: reason %q owner %q retry %v result %s", job.Reason, job.Owner, job.Retry, job.Result)
	}
}
