package dispatch_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// forgetful is a store that has lost its last moments, as after a failover: what it was made to forget it does not
// know until it is told again.
type forgetful struct {
	store.Store
	mu      sync.Mutex
	records map[core.JobID]bool
	leases  map[core.JobID]bool
}

func (f *forgetful) forget(records, leases bool, id core.JobID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = map[core.JobID]bool{id: records}
	f.leases = map[core.JobID]bool{id: leases}
}

func (f *forgetful) knows(what *map[core.JobID]bool, id core.JobID, learn bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if learn {
		delete(*what, id)
	}
	return !(*what)[id]
}

func (f *forgetful) Get(ctx context.Context, id core.JobID) (*core.Job, error) {
	if !f.knows(&f.records, id, false) {
		return nil, store.ErrNoJob
	}
	return f.Store.Get(ctx, id)
}

func (f *forgetful) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	if !f.knows(&f.records, p.Job, false) {
		return store.Applied{Outcome: store.NoJob}, nil
	}
	return f.Store.Apply(ctx, p)
}

func (f *forgetful) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	f.knows(&f.records, p.ID, true)
	return f.Store.Create(ctx, p)
}

func (f *forgetful) Commit(ctx context.Context, r core.LeaseRef) (bool, error) {
	if !f.knows(&f.leases, r.Job, false) {
		return false, nil
	}
	return f.Store.Commit(ctx, r)
}

func (f *forgetful) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	f.knows(&f.leases, p.Lease.Job, true)
	return f.Store.Reserve(ctx, p)
}

// amnesia makes the world's store forgetful.
func (w *world) amnesia() *forgetful {
	f := &forgetful{Store: w.store.Store}
	w.store.Store = f
	return f
}

func (w *world) wantForgotten(kind string, n float64) {
	w.t.Helper()
	if got := testutil.ToFloat64(w.m.StoreLost.WithLabelValues(kind)); got != n {
		w.t.Errorf("%v %ss count as forgotten, want %v", got, kind, n)
	}
}

func TestARecordThatIsForgottenIsWrittenAgain(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		f := w.amnesia()
		w.node("node-a", 1)
		p := w.dispatch()
		f.forget(true, false, p.Job)
		if err := w.done(p); err != nil {
			t.Fatalf("the result: %v", err)
		}
		w.wantState(p.Job, core.StateDone, "")
		w.wantFree("node-a")
		w.wantForgotten("record", 1)
	})
}

func TestAForgottenRecordDoesNotStopARetry(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		f := w.amnesia()
		w.node("node-a", 1)
		w.node("node-b", 1)
		p := w.dispatch()
		f.forget(true, false, p.Job)
		w.pass(3*time.Second, "node-a", "node-b") // no ACK: it moves
		second := w.placed(p.Job)
		if second.Node == p.Node || second.Attempt != 2 {
			t.Fatalf("placed at %+v, was at %+v", second, p)
		}
		if err := w.done(second); err != nil {
			t.Fatal(err)
		}
		w.wantState(p.Job, core.StateDone, "")
	})
}

func TestAFailureOfAForgottenJobIsHeard(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		f := w.amnesia()
		w.node("node-a", 1)
		w.node("node-b", 1)
		p := w.dispatch()
		f.forget(true, false, p.Job)
		if err := w.fail(p, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now := w.placed(p.Job); now.Node == p.Node || now.Attempt != 2 {
			t.Errorf("placed at %+v, was at %+v", now, p)
		}
	})
}

func TestALeaseThatIsForgottenIsTakenAgain(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		f := w.amnesia()
		w.node("node-a", 2)
		p := w.dispatch()
		f.forget(false, true, p.Job)
		if err := w.ack(p); err != nil {
			t.Fatalf("the ACK: %v", err)
		}
		w.wantState(p.Job, core.StateAcked, "")
		w.wantForgotten("lease", 1)
		if err := w.done(p); err != nil {
			t.Fatal(err)
		}
		w.wantFree("node-a")
	})
}

// TestARecordWhoseTimeIsOverIsNotForgotten: nobody writes it again.
func TestARecordWhoseTimeIsOverIsNotForgotten(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		f := w.amnesia()
		w.node("node-a", 1)
		p := w.dispatch()
		if err := w.done(p); err != nil {
			t.Fatal(err)
		}
		f.forget(true, false, p.Job)
		wantCode(t, w.done(p), wire.NotFound)
		w.wantForgotten("record", 0)
	})
}
