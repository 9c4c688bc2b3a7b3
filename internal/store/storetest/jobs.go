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

// jobParams is a new record on a node.
func (h *Harness) jobParams(id core.JobID, node core.NodeID, token core.Token) store.CreateParams {
	spec := core.Spec{Request: core.RequestID(id), Session: "room-1", Direction: core.Direction{Src: "en", Tgt: "zh"}, AudioRef: "blob://a?sig=x"}
	return store.CreateParams{
		ID: id, Spec: spec, Fingerprint: spec.Fingerprint(), Token: token, Timeout: h.Timing.Job,
		Holder: core.Holder{Attempt: 1, Node: node, Epoch: 7},
	}
}

func (h *Harness) create(t testing.TB, p store.CreateParams) *core.Job {
	t.Helper()
	job, created, err := h.Store.Create(t.Context(), p)
	if err != nil || !created {
		t.Fatalf("create %s: created %v, %v", p.ID, created, err)
	}
	return job
}

func (h *Harness) apply(t testing.TB, p store.ApplyParams) store.Applied {
	t.Helper()
	a, err := h.Store.Apply(t.Context(), p)
	if err != nil {
		t.Fatalf("apply %s to %s: %v", p.Event, p.Job, err)
	}
	return a
}

// ignoreTimes compares records without the moments, which are the store's own.
var ignoreTimes = cmp.Options{
	cmpopts.IgnoreFields(core.Job{}, "Created", "Updated", "Deadline", "Retry"),
	cmpopts.IgnoreFields(core.Attempt{}, "Started", "Ended"),
	cmpopts.EquateEmpty(),
}

func exerciseJobs(_ *testing.T, run runner) {
	run("a record is what was created", func(t *testing.T, h *Harness) {
		p := h.jobParams("job-1", "node-a", "t.1")
		p.Spec.Options = core.Options{
			RequireTTS: true, RequiredServices: []string{"asr"}, RequiredModels: []string{"m"}, Features: []string{"tone"},
			PreferredNode: "node-a", Strict: true, Region: "eu",
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
	})

	run("the first record stands, whoever comes later", func(t *testing.T, h *Harness) {
		h.create(t, h.jobParams("job-1", "node-a", "t.1"))
		job, created, err := h.Store.Create(t.Context(), h.jobParams("job-1", "node-b", "t.2"))
		if err != nil || created || job.Node != "node-a" || job.Token != "t.1" {
			t.Errorf("a second create: created %v node %s token %s, %v", created, job.Node, job.Token, err)
		}
		if _, created, err = h.Store.Create(t.Context(), h.jobParams("job-1", "node-a", "t.1")); err != nil || !created {
			t.Errorf("the first create repeated: created %v, %v", created, err)
		}
	})

	run("of many at once one creates", func(t *testing.T, h *Harness) {
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
			t.Errorf("callers saw different records: %v", tokens)
		}
	})

	run("a create past its deadline does nothing", func(t *testing.T, h *Harness) {
		if _, created, err := h.Store.Create(late(t), h.jobParams("job-1", "node-a", "t.1")); created || err == nil {
			t.Errorf("created %v, %v; want an error", created, err)
		}
		if _, err := h.Store.Get(t.Context(), "job-1"); !errors.Is(err, store.ErrNoJob) {
			t.Errorf("get: %v, want ErrNoJob", err)
		}
	})

	run("a refused job leaves no record that stands", func(t *testing.T, h *Harness) {
		h.create(t, h.jobParams("job-1", "node-a", "t.1"))
		h.apply(t, store.ApplyParams{Job: "job-1", Event: core.EventFail, AnyHolder: true, Reason: core.ReasonAllFull})
		if job := h.create(t, h.jobParams("job-1", "node-b", "t.2")); job.Node != "node-b" || job.State != core.StateDispatched {
			t.Errorf("the new record: %+v", job)
		}
	})

	run("one decision ends a job", func(t *testing.T, h *Harness) {
		p := h.jobParams("job-1", "node-a", "t.1")
		h.create(t, p)
		steps := []store.ApplyParams{
			{Event: core.EventDone, Holder: p.Holder, Result: []byte(`{}`)},
			{Event: core.EventCancel, AnyHolder: true, Reason: core.ReasonCancelled},
			{Event: core.EventFail, AnyHolder: true, Reason: core.ReasonDeadline},
		}
		const each = 16
		var mu sync.Mutex
		decided := map[core.Event]int{}
		var wg sync.WaitGroup
		for range each {
			for _, step := range steps {
				wg.Go(func() {
					step.Job = "job-1"
					a, err := h.Store.Apply(t.Context(), step)
					if err != nil {
						t.Errorf("apply: %v", err)
					}
					if a.Outcome.Stands() {
						mu.Lock()
						decided[step.Event]++
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		if len(decided) != 1 {
			t.Errorf("different ends stand: %v", decided)
		}
	})

	run("a record outlives its job by as long as is promised", func(t *testing.T, h *Harness) {
		h.create(t, h.jobParams("job-live", "node-a", "t.1"))
		h.create(t, h.jobParams("job-done", "node-a", "t.2"))
		h.apply(t, store.ApplyParams{Job: "job-done", Event: core.EventDone, AnyHolder: true, Result: []byte(`{"text_tgt":"x"}`)})
		h.Wait(h.Timing.Retention / 2)
		if job, err := h.Store.Get(t.Context(), "job-done"); err != nil || string(job.Result) != `{"text_tgt":"x"}` {
			t.Errorf("the ended job before its time: %v, %v", job, err)
		}
		h.Wait(h.Timing.Retention/2 + h.Slack)
		if _, err := h.Store.Get(t.Context(), "job-done"); !errors.Is(err, store.ErrNoJob) {
			t.Errorf("the ended job after its time: %v, want ErrNoJob", err)
		}
		if h.Timing.Retention < h.Timing.Job {
			if _, err := h.Store.Get(t.Context(), "job-live"); err != nil {
				t.Errorf("the live job before its deadline: %v", err)
			}
		}
		h.Wait(h.Timing.Job + 2*h.Timing.Presence)
		if _, err := h.Store.Get(t.Context(), "job-live"); !errors.Is(err, store.ErrNoJob) {
			t.Errorf("the live job long after its deadline: %v, want ErrNoJob", err)
		}
	})

	run("a retry belongs to its owner until its time is over", func(t *testing.T, h *Harness) {
		p := h.jobParams("job-1", "node-a", "t.1")
		h.create(t, p)
		retry := store.ApplyParams{Job: "job-1", Event: core.EventRetry, Holder: p.Holder, Owner: "o.1", RetryFor: h.Timing.Presence, Reason: core.ReasonACKTimeout}
		if a := h.apply(t, retry); !h.decided(a.Outcome) {
			t.Fatalf("retry: %s", a.Outcome)
		}
		take := store.ApplyParams{Job: "job-1", Event: core.EventTakeover, Holder: p.Holder, Owner: "o.2", RetryFor: h.Timing.Presence}
		move := store.ApplyParams{
			Job: "job-1", Event: core.EventMove, Holder: p.Holder, Owner: "o.2", Token: "t.2",
			To: core.Holder{Attempt: 2, Node: "node-b", Epoch: 9},
		}
		if a := h.apply(t, take); a.Outcome != store.Owned {
			t.Errorf("takeover before its time: %s, want owned", a.Outcome)
		}
		if a := h.apply(t, move); a.Outcome != store.Owned {
			t.Errorf("move by somebody else: %s, want owned", a.Outcome)
		}
		h.Wait(h.Timing.Presence / 2)
		renew := take
		renew.Owner = "o.1"
		if a := h.apply(t, renew); !a.Outcome.Stands() {
			t.Errorf("renewal by the owner: %s", a.Outcome)
		}
		h.Wait(h.Timing.Presence/2 + h.Slack)
		if a := h.apply(t, take); a.Outcome != store.Owned {
			t.Errorf("takeover of a renewed retry: %s, want owned", a.Outcome)
		}
		h.Wait(h.Timing.Presence / 2)
		if a := h.apply(t, take); !a.Outcome.Stands() {
			t.Errorf("takeover after its time: %s", a.Outcome)
		}
		if a := h.apply(t, move); !h.decided(a.Outcome) || a.Job.Node != "node-b" || a.Job.Attempt != 2 {
			t.Errorf("move by the new owner: %s %+v", a.Outcome, a.Job.Holder)
		}
	})

	run("the deadline of a job that waits for its audio moves once", func(t *testing.T, h *Harness) {
		p := h.jobParams("job-1", "node-a", "t.1")
		p.Timeout = h.Timing.Presence / 4
		created := h.create(t, p)
		grace := h.Timing.Presence + h.Slack
		wants := func(what string, job *core.Job, after time.Duration) {
			t.Helper()
			if got := job.Deadline.Sub(created.Created); got != after {
				t.Errorf("%s: the deadline is %v after creation, want %v", what, got, after)
			}
		}
		retry := store.ApplyParams{Job: "job-1", Event: core.EventRetry, Holder: p.Holder, Owner: "o.1", RetryFor: h.Timing.Presence / 4, Reason: core.ReasonNodeLost}
		wants("a retry", h.apply(t, retry).Job, p.Timeout)
		h.Wait(h.Timing.Presence/4 + h.Slack)
		take := store.ApplyParams{Job: "job-1", Event: core.EventTakeover, Holder: p.Holder, Owner: "audio", RetryFor: grace, Suspends: true}
		wants("a takeover that waits for audio", h.apply(t, take).Job, p.Timeout+grace)
		wants("the same again", h.apply(t, take).Job, p.Timeout+grace)
		// Whoever brings the audio must still find the record: it lives longer than one that never waited.
		h.Wait(2 * h.Timing.Presence)
		job, err := h.Store.Get(t.Context(), "job-1")
		if err != nil {
			t.Fatalf("the record of a job that waits for its audio: %v", err)
		}
		wants("later", job, p.Timeout+grace)
	})

	run("a record's clock goes on between its steps", func(t *testing.T, h *Harness) {
		created := h.create(t, h.jobParams("job-1", "node-a", "t.1"))
		h.Wait(h.Timing.ReservedTTL)
		if passed := h.Store.Clock("job-1").Sub(created.Updated); passed < h.Timing.ReservedTTL-h.Slack || passed > 2*h.Timing.ReservedTTL {
			t.Errorf("%v have passed on the record's clock, want about %v", passed, h.Timing.ReservedTTL)
		}
	})

	run("lists select, order and bound", func(t *testing.T, h *Harness) {
		a, b := h.register(t, "node-a", 9), h.register(t, "node-b", 9)
		for i := range 5 {
			id, on := core.JobID(fmt.Sprintf("job-%d", i)), a
			p := h.jobParams(id, "node-a", ref("node-a", id).Token)
			if i == 3 {
				on, p.Holder.Node, p.Spec.Session = b, "node-b", "room-2"
				p.Spec.Direction, p.Spec.Options.Region = core.Direction{Src: "ko", Tgt: "ja"}, "eu"
			}
			h.mustReserve(t, on, id)
			h.create(t, p)
			h.Wait(10 * time.Millisecond) // so that they differ in age
		}
		h.apply(t, store.ApplyParams{Job: "job-1", Event: core.EventCancel, AnyHolder: true, Reason: core.ReasonCancelled})
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
		// Page by page, with jobs that come meanwhile: they are newer than where the list is.
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
			h.mustReserve(t, a, id)
			h.create(t, h.jobParams(id, "node-a", ref("node-a", id).Token))
		}
		if diff := cmp.Diff([]core.JobID{"job-4", "job-3", "job-2", "job-1", "job-0"}, got); diff != "" {
			t.Errorf("page by page (-want +got):\n%s", diff)
		}
	})

	run("every step comes to the answer of the pure one", func(t *testing.T, h *Harness) {
		seq := 0
		// A test on a turned clock has no deadline to ask for, and rapid would ask.
		rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
			seq++ // it runs many times over one store
			h.compareSteps(t, rt, core.JobID(fmt.Sprintf("job-%d", seq)))
		})
	})
}

// compareSteps makes random steps on one record and on a model of it.
func (h *Harness) compareSteps(t *testing.T, rt *rapid.T, id core.JobID) {
	holders := []core.Holder{{Attempt: 1, Node: "node-a", Epoch: 7}, {Attempt: 1, Node: "node-b", Epoch: 8}, {Attempt: 2, Node: "node-b", Epoch: 8}, {Attempt: 2, Node: "node-a", Epoch: 9}}
	stored := []core.Event{core.EventDone, core.EventRetry, core.EventTakeover, core.EventMove, core.EventRebind, core.EventFail, core.EventCancel}
	model := h.create(t, h.jobParams(id, "node-a", "t.1"))
	for range rapid.IntRange(1, 12).Draw(rt, "steps") {
		p := store.ApplyParams{
			Job:       id,
			Event:     rapid.SampledFrom(stored).Draw(rt, "event"),
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
		same := got.Outcome == want || h.Repeats && want == store.Decided && got.Outcome == store.Repeated
		if !same {
			rt.Fatalf("%s by %+v (any %v): %s, want %s\nrecord: %+v", p.Event, p.Holder, p.AnyHolder, got.Outcome, want, model)
		}
		if h.Repeats && p.Event == core.EventTakeover && want == store.Decided {
			next.Version++ // a renewal said twice renews twice
		}
		if diff := cmp.Diff(next, got.Job, ignoreTimes); diff != "" {
			rt.Fatalf("record after %s (-want +got):\n%s", p.Event, diff)
		}
		model = next
	}
}
