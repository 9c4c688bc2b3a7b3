package redisstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// noticed opens a store and returns where it says that Redis is gone (false) or back (true).
func noticed(t *testing.T, r *redistest.Server, within time.Duration) (*redisstore.Store, <-chan bool) {
	t.Helper()
	told := make(chan bool, 64)
	s := open(t, r.URL(), func(o *redisstore.Options) { o.Timeout, o.OnHealth = within, func(up bool) { told <- up } })
	return s, told
}

func wantNotice(t *testing.T, told <-chan bool, want bool) {
	t.Helper()
	select {
	case up := <-told:
		if up != want {
			t.Fatalf("told that Redis is up: %v, want %v", up, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("never told that Redis is up: %v", want)
	}
}

// TestCallersWhoLeaveDoNotHideAnOutage: in an outage, people hang up. That is no good news of Redis.
func TestCallersWhoLeaveDoNotHideAnOutage(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s, told := noticed(t, r, 400*time.Millisecond)
	r.Stop()
	defer r.Continue()
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				ctx, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
				_, _ = s.Get(ctx, "job-1")
				leave()
				_, _ = s.Get(t.Context(), "job-1")
			}
		})
	}
	wantNotice(t, told, false)
	close(done)
	wg.Wait()
}

// TestCallersWithoutTimeDoNotCondemnRedis: whose own time is over before Redis could answer has nothing to say of it.
func TestCallersWithoutTimeDoNotCondemnRedis(t *testing.T) {
	t.Parallel()
	s, told := noticed(t, redistest.Start(t), 5*time.Second)
	over, end := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer end()
	for range 50 {
		if _, err := s.Get(over, "job-1"); err == nil || errors.Is(err, store.ErrDown) {
			t.Fatalf("a caller whose time was over: %v", err)
		}
	}
	if _, err := s.Get(t.Context(), "job-1"); !errors.Is(err, store.ErrNoJob) {
		t.Errorf("a caller with time: %v", err)
	}
	select {
	case <-told:
		t.Error("Redis was taken for gone")
	default:
	}
}

// TestAFullRedisThatHasRoomAgain is back by what goes on anyway: heartbeats.
func TestAFullRedisThatHasRoomAgain(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s, told := noticed(t, r, 5*time.Second)
	n, err := s.Register(t.Context(), store.RegisterParams{Node: core.Node{ID: "node-a", Health: core.HealthReady, MaxJobs: 1}})
	if err != nil {
		t.Fatal(err)
	}
	beat := func() error {
		_, err := s.Heartbeat(t.Context(), store.HeartbeatParams{Node: "node-a", Known: n.Node})
		return err
	}
	limit := func(bytes string) {
		if _, err := r.Do("CONFIG", "SET", "maxmemory", bytes); err != nil {
			t.Fatal(err)
		}
	}
	limit("1")
	if err := beat(); !errors.Is(err, store.ErrDown) {
		t.Fatalf("a heartbeat to a full Redis: %v", err)
	}
	wantNotice(t, told, false)
	limit("0")
	if err := beat(); err != nil {
		t.Fatal(err)
	}
	wantNotice(t, told, true)
}

// TestAJobMadeAnewIsListedOnce, as it is, although the one it replaces was refused here.
func TestAJobMadeAnewIsListedOnce(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Start(t).URL())
	n, err := s.Register(t.Context(), store.RegisterParams{Node: core.Node{ID: "node-a", Health: core.HealthReady, MaxJobs: 1}})
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
	step := func(p store.ApplyParams) {
		p.Job, p.AnyHolder = "job-1", true
		if a, err := s.Apply(t.Context(), p); err != nil || a.Outcome != store.Decided {
			t.Fatal(a.Outcome, err)
		}
	}
	listed := func(want core.State) {
		t.Helper()
		jobs, err := s.List(t.Context(), store.ListParams{})
		if err != nil || len(jobs) != 1 || jobs[0].State != want {
			t.Errorf("listed %v, %v; want one job, %s", jobs, err, want)
		}
	}
	create("t.1")
	step(store.ApplyParams{Event: core.EventFail, Reason: core.ReasonAllFull})
	if err := s.Release(t.Context(), store.ReleaseParams{Lease: core.LeaseRef{Node: "node-a", Job: "job-1", Attempt: 1, Token: "t.1"}}); err != nil {
		t.Fatal(err)
	}
	s.Quiesce()
	create("t.2")
	listed(core.StateDispatched)
	step(store.ApplyParams{Event: core.EventDone})
	listed(core.StateDone)
}
