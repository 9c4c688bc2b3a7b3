package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// jobBehaviours is the specification of Jobs.
var jobBehaviours = []behaviour{
	{"a created record is read as it was written", testCreate},
	{"a second create returns the first record, and a repeated one is its own", testCreateOnlyOnce},
	{"of concurrent creates one succeeds, and all return its record", testConcurrentCreates},
	{"a create past its deadline writes nothing", testLateCreate},
	{"the record of a refused job is replaced by the next create", testCreateAfterRefusal},
	{"of concurrent outcomes one is stored", testOneOutcome},
	{"every transition has the result of store.Transition", testTransitions},
	{"a retry belongs to its owner until its deadline, which the owner can renew", testRetryOwner},
	{"the deadline of a job that waits for its audio moves once, and its record outlives the wait", testSuspendedDeadline},
	{"an ended record is kept for the retention, and a live one until its deadline", testEndedRecord},
	{"a live record is kept for two presences after its deadline", testLiveRecord},
	{"the clock of a record advances between its transitions", testRecordClock},
	{"a list selects by state, node, session, language and region, the newest first, up to a limit", testListSelects},
	{"a list continues after a position, whatever was created meanwhile", testListPages},
}

func testCreate(t *testing.T, h *Harness) {
	p := h.jobParams("job-1", "node-a", "t.1")
	p.Spec.Options = core.Options{
		RequireTTS: true, RequiredServices: []string{"asr"}, RequiredModels: []string{"m"}, Features: []string{"tone"},
		PreferredNodeID: new("node-a"), Strict: true, Region: "eu",
	}
	created := h.create(t, p)
	got, err := h.Store.Get(t.Context(), "job-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(created, got); diff != "" {
		t.Errorf("record (-created +got):\n%s", diff)
	}
	want := &core.Job{
		ID: "job-1", Spec: p.Spec, Fingerprint: p.Fingerprint, State: core.StateDispatched, Holder: p.Holder, Token: "t.1", Version: 1,
		History: []core.Attempt{{Holder: p.Holder, Token: "t.1"}},
	}
	if diff := cmp.Diff(want, got, ignoreTimes); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if d := got.Deadline.Sub(got.Created); d != h.Timing.Job {
		t.Errorf("the deadline is %v after creation, want %v", d, h.Timing.Job)
	}
}

func testCreateOnlyOnce(t *testing.T, h *Harness) {
	h.create(t, h.jobParams("job-1", "node-a", "t.1"))
	job, created, err := h.Store.Create(t.Context(), h.jobParams("job-1", "node-b", "t.2"))
	if err != nil || created || job.Node != "node-a" || job.Token != "t.1" {
		t.Errorf("a second create: created %v node %s token %s, %v", created, job.Node, job.Token, err)
	}
	if _, created, err = h.Store.Create(t.Context(), h.jobParams("job-1", "node-a", "t.1")); err != nil || !created {
		t.Errorf("the first create repeated: created %v, %v", created, err)
	}
}

func testConcurrentCreates(t *testing.T, h *Harness) {
	const callers = 32
	var wg sync.WaitGroup
	winners := make([]bool, callers)
	tokens := make([]core.Token, callers)
	for i := range callers {
		wg.Go(func() {
			token := core.Token(fmt.Sprintf("t.%d", i))
			job, created, err := h.Store.Create(t.Context(), h.jobParams("job-1", "node-a", token))
			if err != nil {
				t.Errorf("create: %v", err)
			}
			winners[i], tokens[i] = created, job.Token
		})
	}
	wg.Wait()
	if n := len(slices.DeleteFunc(slices.Clone(winners), func(w bool) bool { return !w })); n != 1 {
		t.Errorf("%d callers created the record", n)
	}
	if len(slices.Compact(tokens)) != 1 {
		t.Errorf("callers got different records: %v", tokens)
	}
}

func testLateCreate(t *testing.T, h *Harness) {
	if _, created, err := h.Store.Create(expiredContext(t), h.jobParams("job-1", "node-a", "t.1")); created || err == nil {
		t.Errorf("created %v, %v; want an error", created, err)
	}
	if _, err := h.Store.Get(t.Context(), "job-1"); !errors.Is(err, store.ErrNoJob) {
		t.Errorf("get: %v, want ErrNoJob", err)
	}
}

func testCreateAfterRefusal(t *testing.T, h *Harness) {
	h.create(t, h.jobParams("job-1", "node-a", "t.1"))
	h.apply(t, store.ApplyParams{Job: "job-1", Event: core.EventFail, AnyHolder: true, Reason: core.ReasonAllFull})
	if job := h.create(t, h.jobParams("job-1", "node-b", "t.2")); job.Node != "node-b" || job.State != core.StateDispatched {
		t.Errorf("the new record: %+v", job)
	}
}

func testOneOutcome(t *testing.T, h *Harness) {
	p := h.jobParams("job-1", "node-a", "t.1")
	h.create(t, p)
	outcomes := []store.ApplyParams{
		{Event: core.EventDone, Holder: p.Holder, Result: []byte(`{}`)},
		{Event: core.EventCancel, AnyHolder: true, Reason: core.ReasonCancelled},
		{Event: core.EventFail, AnyHolder: true, Reason: core.ReasonDeadline},
	}
	const callers = 16
	var mu sync.Mutex
	stored := map[core.Event]int{}
	var wg sync.WaitGroup
	for range callers {
		for _, p := range outcomes {
			wg.Go(func() {
				p.Job = "job-1"
				a, err := h.Store.Apply(t.Context(), p)
				if err != nil {
					t.Errorf("apply: %v", err)
				}
				if a.Outcome.Stands() {
					mu.Lock()
					stored[p.Event]++
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	if len(stored) != 1 {
		t.Errorf("different outcomes were stored: %v", stored)
	}
}

func testTransitions(t *testing.T, h *Harness) {
	number := 0
	// rapid would ask for the test's deadline, which a test in a synctest bubble does not have.
	rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
		number++ // rapid runs this many times on one store
		h.compareTransitions(t, rt, core.JobID(fmt.Sprintf("job-%d", number)))
	})
}

func testRetryOwner(t *testing.T, h *Harness) {
	repeatWhileSlow(t, func(name core.NodeID) (inTime bool) {
		job := core.JobID(name)
		p := h.jobParams(job, "node-a", "t.1")
		h.create(t, p)
		retry := store.ApplyParams{
			Job: job, Event: core.EventRetry, Holder: p.Holder, Owner: "o.1", RetryFor: h.Timing.Presence, Reason: core.ReasonACKTimeout,
		}
		retried := time.Now()
		if a := h.apply(t, retry); !h.decided(a.Outcome) {
			t.Fatalf("retry: %s", a.Outcome)
		}
		takeover := store.ApplyParams{Job: job, Event: core.EventTakeover, Holder: p.Holder, Owner: "o.2", RetryFor: h.Timing.Presence}
		move := store.ApplyParams{
			Job: job, Event: core.EventMove, Holder: p.Holder, Owner: "o.2", Token: "t.2",
			To: core.Holder{Attempt: 2, Node: "node-b", Epoch: 9},
		}
		early, byOther := h.apply(t, takeover), h.apply(t, move)
		if time.Since(retried) >= h.Timing.Presence {
			return false
		}
		if early.Outcome != store.Owned {
			t.Errorf("takeover before its deadline: %s, want owned", early.Outcome)
		}
		if byOther.Outcome != store.Owned {
			t.Errorf("move by another owner: %s, want owned", byOther.Outcome)
		}
		h.Wait(h.Timing.Presence / 2)
		renewal := takeover
		renewal.Owner = "o.1"
		renewed := time.Now()
		if a := h.apply(t, renewal); !a.Outcome.Stands() {
			t.Errorf("renewal by the owner: %s", a.Outcome)
		}
		h.Wait(h.Timing.Presence/2 + h.Slack)
		early = h.apply(t, takeover)
		if time.Since(renewed) >= h.Timing.Presence {
			return false
		}
		if early.Outcome != store.Owned {
			t.Errorf("takeover of a renewed retry: %s, want owned", early.Outcome)
		}
		h.Wait(h.Timing.Presence / 2)
		if a := h.apply(t, takeover); !a.Outcome.Stands() {
			t.Errorf("takeover after its deadline: %s", a.Outcome)
		}
		if a := h.apply(t, move); !h.decided(a.Outcome) || a.Job.Node != "node-b" || a.Job.Attempt != 2 {
			t.Errorf("move by the new owner: %s %+v", a.Outcome, a.Job.Holder)
		}
		return true
	})
}

func testSuspendedDeadline(t *testing.T, h *Harness) {
	p := h.jobParams("job-1", "node-a", "t.1")
	p.Timeout = h.Timing.Presence / 4
	created := h.create(t, p)
	grace := h.Timing.Presence + h.Slack
	wantDeadline := func(what string, job *core.Job, after time.Duration) {
		t.Helper()
		if got := job.Deadline.Sub(created.Created); got != after {
			t.Errorf("%s: the deadline is %v after creation, want %v", what, got, after)
		}
	}
	retry := store.ApplyParams{Job: "job-1", Event: core.EventRetry, Holder: p.Holder, Owner: "o.1", RetryFor: h.Timing.Presence / 4,
		Reason: core.ReasonNodeLost}
	wantDeadline("a retry", h.apply(t, retry).Job, p.Timeout)
	h.Wait(h.Timing.Presence/4 + h.Slack)
	takeover := store.ApplyParams{Job: "job-1", Event: core.EventTakeover, Holder: p.Holder, Owner: "audio", RetryFor: grace,
		Suspends: true}
	wantDeadline("a takeover that waits for audio", h.apply(t, takeover).Job, p.Timeout+grace)
	wantDeadline("the same takeover repeated", h.apply(t, takeover).Job, p.Timeout+grace)
	// The instance that gets the audio must find the record: it is kept longer than one that never waited.
	h.Wait(2 * h.Timing.Presence)
	job, err := h.Store.Get(t.Context(), "job-1")
	if err != nil {
		t.Fatalf("the record of a job that waits for its audio: %v", err)
	}
	wantDeadline("later", job, p.Timeout+grace)
}

func testEndedRecord(t *testing.T, h *Harness) {
	h.create(t, h.jobParams("job-live", "node-a", "t.1"))
	h.create(t, h.jobParams("job-done", "node-a", "t.2"))
	h.apply(t, store.ApplyParams{Job: "job-done", Event: core.EventDone, AnyHolder: true, Result: []byte(`{"text_tgt":"x"}`)})
	h.Wait(h.Timing.Retention / 2)
	if job, err := h.Store.Get(t.Context(), "job-done"); err != nil || string(job.Result) != `{"text_tgt":"x"}` {
		t.Errorf("the ended job before its expiry: %v, %v", job, err)
	}
	h.Wait(h.Timing.Retention/2 + h.Slack)
	if _, err := h.Store.Get(t.Context(), "job-done"); !errors.Is(err, store.ErrNoJob) {
		t.Errorf("the ended job after its expiry: %v, want ErrNoJob", err)
	}
	if h.Timing.Retention < h.Timing.Job {
		if _, err := h.Store.Get(t.Context(), "job-live"); err != nil {
			t.Errorf("the live job before its deadline: %v", err)
		}
	}
}

func testLiveRecord(t *testing.T, h *Harness) {
	p := h.jobParams("job-1", "node-a", "t.1")
	p.Timeout = h.Timing.Presence / 4
	h.create(t, p)
	h.Wait(p.Timeout + h.Timing.Presence)
	if _, err := h.Store.Get(t.Context(), "job-1"); err != nil {
		t.Errorf("one presence after its deadline: %v", err)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	if _, err := h.Store.Get(t.Context(), "job-1"); !errors.Is(err, store.ErrNoJob) {
		t.Errorf("two presences after its deadline: %v, want ErrNoJob", err)
	}
}

func testRecordClock(t *testing.T, h *Harness) {
	began := time.Now()
	created := h.create(t, h.jobParams("job-1", "node-a", "t.1"))
	h.Wait(h.Timing.ReservedTTL)
	now, err := h.Store.Clock(t.Context(), store.ClockKey{Job: "job-1"})
	if err != nil {
		t.Fatal(err)
	}
	elapsed := now.Sub(created.Updated)
	if most := time.Since(began) + h.Slack; elapsed < h.Timing.ReservedTTL-h.Slack || elapsed > most {
		t.Errorf("%v have passed on the record's clock, want between %v and %v", elapsed, h.Timing.ReservedTTL, most)
	}
}

func testListSelects(t *testing.T, h *Harness) {
	h.createListedJobs(t)
	for _, c := range []struct {
		p    store.ListParams
		want []core.JobID
	}{
		{store.ListParams{}, []core.JobID{"job-4", "job-3", "job-2", "job-1", "job-0"}},
		{store.ListParams{Limit: 2}, []core.JobID{"job-4", "job-3"}},
		{store.ListParams{Node: "node-b"}, []core.JobID{"job-3"}},
		{store.ListParams{Session: "room-2"}, []core.JobID{"job-3"}},
		{store.ListParams{Lang: "ko"}, []core.JobID{"job-3"}},
		{store.ListParams{Lang: "ja"}, []core.JobID{"job-3"}},
		{store.ListParams{Region: "eu"}, []core.JobID{"job-3"}},
		{store.ListParams{State: core.StateCancelled}, []core.JobID{"job-1"}},
		{store.ListParams{Phase: store.PhaseEnded}, []core.JobID{"job-1"}},
		{store.ListParams{Phase: store.PhaseOpen}, []core.JobID{"job-4", "job-3", "job-2", "job-0"}},
		{store.ListParams{Phase: store.PhaseOpen, Node: "node-b"}, []core.JobID{"job-3"}},
		{store.ListParams{Phase: store.PhaseOpen, State: core.StateCancelled}, nil},
		{store.ListParams{State: core.StateDispatched, Session: "room-1", Limit: 2}, []core.JobID{"job-4", "job-2"}},
	} {
		jobs, err := h.Store.List(t.Context(), c.p)
		if err != nil {
			t.Fatal(err)
		}
		var got []core.JobID
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("list %+v (-want +got):\n%s", c.p, diff)
		}
	}
}

func testListPages(t *testing.T, h *Harness) {
	node := h.createListedJobs(t)
	var got []core.JobID
	for p := (store.ListParams{Limit: 2}); ; {
		jobs, err := h.Store.List(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) == 0 {
			break
		}
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		p.After = store.PositionOf(jobs[len(jobs)-1])
		id := core.JobID(fmt.Sprintf("late-%d", len(got)))
		h.heartbeat(t, node, heartbeat{}) // it is not silent, however long that took
		h.mustReserve(t, node, id)        // newer than the position of the list
		h.create(t, h.jobParams(id, "node-a", leaseRef("node-a", id).Token))
	}
	if diff := cmp.Diff([]core.JobID{"job-4", "job-3", "job-2", "job-1", "job-0"}, got); diff != "" {
		t.Errorf("page by page (-want +got):\n%s", diff)
	}
}

// jobParams describes a new record on a node.
func (h *Harness) jobParams(id core.JobID, node core.NodeID, token core.Token) store.CreateParams {
	spec := core.Spec{Request: core.RequestID(id), Session: "room-1", Direction: core.Direction{Src: "en", Tgt: "zh"},
		AudioRef: "blob://a?sig=x"}
	return store.CreateParams{
		ID: id, Spec: spec, Fingerprint: spec.Fingerprint(), Token: token, Timeout: h.Timing.Job,
		Holder: core.Holder{Attempt: 1, Node: node, Epoch: 7},
	}
}

// create creates a record that must not exist.
func (h *Harness) create(t testing.TB, p store.CreateParams) *core.Job {
	t.Helper()
	job, created, err := h.Store.Create(t.Context(), p)
	if err != nil || !created {
		t.Fatalf("create %s: created %v, %v", p.ID, created, err)
	}
	return job
}

// apply applies an event.
func (h *Harness) apply(t testing.TB, p store.ApplyParams) store.Applied {
	t.Helper()
	a, err := h.Store.Apply(t.Context(), p)
	if err != nil {
		t.Fatalf("apply %s to %s: %v", p.Event, p.Job, err)
	}
	return a
}

// ignoreTimes compares records without their times, which the store sets.
var ignoreTimes = cmp.Options{
	cmpopts.IgnoreFields(core.Job{}, "Created", "Updated", "Deadline", "Retry"),
	cmpopts.IgnoreFields(core.Attempt{}, "Started", "Ended"),
	cmpopts.EquateEmpty(),
}

// compareTransitions applies random events to one record and to a model of it.
func (h *Harness) compareTransitions(t *testing.T, rt *rapid.T, id core.JobID) {
	holders := []core.Holder{{Attempt: 1, Node: "node-a", Epoch: 7}, {Attempt: 1, Node: "node-b", Epoch: 8},
		{Attempt: 2, Node: "node-b", Epoch: 8}, {Attempt: 2, Node: "node-a", Epoch: 9}}
	events := []core.Event{core.EventDone, core.EventRetry, core.EventTakeover, core.EventMove, core.EventRebind, core.EventFail,
		core.EventCancel}
	model := h.create(t, h.jobParams(id, "node-a", "t.1"))
	for range rapid.IntRange(1, 12).Draw(rt, "events") {
		p := store.ApplyParams{
			Job:       id,
			Event:     rapid.SampledFrom(events).Draw(rt, "event"),
			Holder:    rapid.SampledFrom(holders).Draw(rt, "holder"),
			AnyHolder: rapid.Bool().Draw(rt, "any"),
			To:        rapid.SampledFrom(holders).Draw(rt, "to"),
			Token:     rapid.SampledFrom([]core.Token{"t.1", "t.2", "t.3"}).Draw(rt, "token"),
			Owner:     rapid.SampledFrom([]core.Token{"o.1", "o.2"}).Draw(rt, "owner"),
			RetryFor:  h.Timing.Job,
			Reason:    rapid.SampledFrom([]core.Reason{core.ReasonACKTimeout, core.ReasonMaxRetry}).Draw(rt, "reason"),
			Result:    []byte(`{}`),
		}
		if rapid.Bool().Draw(rt, "open epoch") {
			p.Holder.Epoch = 0
		}
		next, want := store.Transition(model, &p, model.Updated)
		got := h.apply(t, p)
		matches := got.Outcome == want || h.Repeats && want == store.Decided && got.Outcome == store.Repeated
		if !matches {
			rt.Fatalf("%s by %+v (any %v): %s, want %s\nrecord: %+v", p.Event, p.Holder, p.AnyHolder, got.Outcome, want, model)
		}
		if h.Repeats && p.Event == core.EventTakeover && want == store.Decided {
			next.Version++ // a repeated renewal renews again
		}
		if diff := cmp.Diff(next, got.Job, ignoreTimes); diff != "" {
			rt.Fatalf("record after %s (-want +got):\n%s", p.Event, diff)
		}
		model = next
	}
}

// createListedJobs creates job-0 to job-4, the oldest first: job-1 is cancelled, and job-3 is on node-b with another session, direction
// and region. It returns node-a.
func (h *Harness) createListedJobs(t *testing.T) *core.Node {
	t.Helper()
	a, b := h.register(t, "node-a", 9), h.register(t, "node-b", 9)
	for i := range 5 {
		id, on := core.JobID(fmt.Sprintf("job-%d", i)), a
		p := h.jobParams(id, "node-a", leaseRef("node-a", id).Token)
		if i == 3 {
			on, p.Holder.Node, p.Spec.Session = b, "node-b", "room-2"
			p.Spec.Direction, p.Spec.Options.Region = core.Direction{Src: "ko", Tgt: "ja"}, "eu"
		}
		h.heartbeat(t, on, heartbeat{}) // it is not silent, however long that took
		h.mustReserve(t, on, id)
		h.create(t, p)
		h.Wait(10 * time.Millisecond) // so that they differ in age
	}
	h.apply(t, store.ApplyParams{Job: "job-1", Event: core.EventCancel, AnyHolder: true, Reason: core.ReasonCancelled})
	return a
}
