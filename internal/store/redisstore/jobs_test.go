package redisstore_test

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestRecreatedJobIsListedOnce: a job that was created again after a refusal is listed once, in its new state.
func TestRecreatedJobIsListedOnce(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Start(t).URL())
	n, err := s.Register(t.Context(), store.RegisterParams{Node: core.Node{ID: "node-a", Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	create := func(token core.Token) {
		ref := core.LeaseRef{Node: "node-a", Job: "job-1", Attempt: 1, Token: token}
		if r, err := s.Reserve(t.Context(), store.ReserveParams{Lease: ref, Epoch: n.Node.Epoch, Revision: n.Node.Revision}); err != nil || r.Verdict != store.OK {
			t.Fatal(r, err)
		}
		if _, created, err := s.Create(t.Context(), store.CreateParams{
			ID: "job-1", Holder: core.Holder{Attempt: 1, Node: "node-a", Epoch: n.Node.Epoch}, Token: token, Timeout: time.Minute, Fingerprint: "p",
		}); err != nil || !created {
			t.Fatal(created, err)
		}
	}
	apply := func(p store.ApplyParams) {
		p.Job, p.AnyHolder = "job-1", true
		if a, err := s.Apply(t.Context(), p); err != nil || a.Outcome != store.Decided {
			t.Fatal(a.Outcome, err)
		}
	}
	wantListed := func(want core.State) {
		t.Helper()
		jobs, err := s.List(t.Context(), store.ListParams{})
		if err != nil || len(jobs) != 1 || jobs[0].State != want {
			t.Errorf("listed %v, %v; want one job, %s", jobs, err, want)
		}
	}
	create("t.1")
	apply(store.ApplyParams{Event: core.EventFail, Reason: core.ReasonAllFull})
	if err := s.Release(t.Context(), store.ReleaseParams{Lease: core.LeaseRef{Node: "node-a", Job: "job-1", Attempt: 1, Token: "t.1"}}); err != nil {
		t.Fatal(err)
	}
	s.WaitForReleases()
	create("t.2")
	wantListed(core.StateDispatched)
	apply(store.ApplyParams{Event: core.EventDone})
	wantListed(core.StateDone)
}
