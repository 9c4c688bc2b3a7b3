package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// otherClock is a store whose clock for waiting requests is ahead of that of the memory store, by a time that can change.
type otherClock struct {
	store.Store
	ahead atomic.Int64 // milliseconds
	known atomic.Int64 // ahead, as Clock knows it: since the last call of Enqueue
	names sync.Map     // of the waiters that were to be added
}

func (s *otherClock) jump(d time.Duration) { s.ahead.Add(d.Milliseconds()) }

// translated returns a waiter with times on the clock of the memory store.
func (s *otherClock) translated(w fairqueue.Waiter) fairqueue.Waiter {
	w.Since -= s.ahead.Load()
	w.Deadline -= s.ahead.Load()
	return w
}

func (s *otherClock) Enqueue(ctx context.Context, pool core.PoolID, p fairqueue.EnqueueParams) (fairqueue.EnqueueResult, error) {
	p.Waiter = s.translated(p.Waiter)
	s.names.Store(p.ID, true)
	s.known.Store(s.ahead.Load())
	return s.Store.Enqueue(ctx, pool, p)
}

func (s *otherClock) Offer(ctx context.Context, pool core.PoolID, n int, classes []string) (fairqueue.OfferResult, error) {
	r, err := s.Store.Offer(ctx, pool, n, classes)
	for i := range r.Offers {
		r.Offers[i].Since += s.ahead.Load()
		r.Offers[i].Deadline += s.ahead.Load()
	}
	return r, err
}

func (s *otherClock) Settle(ctx context.Context, pool core.PoolID, w fairqueue.Waiter, how fairqueue.Settlement) error {
	return s.Store.Settle(ctx, pool, s.translated(w), how)
}

func (s *otherClock) Clock(ctx context.Context, key store.ClockKey) (time.Time, error) {
	now, err := s.Store.Clock(ctx, key)
	if key.Job == "" {
		now = now.Add(time.Duration(s.known.Load()) * time.Millisecond)
	}
	return now, err
}

// queued returns the requests in the queue.
func (h *harness) queued() (list []fairqueue.Waiter) {
	h.t.Helper()
	v, err := h.mem.ViewQueue(h.t.Context(), "", fairqueue.ViewParams{Flows: 10, Waiters: 100})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range v.Flows {
		list = append(list, f.Waiters...)
	}
	return list
}

// loseQueue removes all requests from the queue.
func (h *harness) loseQueue() {
	h.t.Helper()
	for _, w := range h.queued() {
		if err := h.mem.Settle(h.t.Context(), "", w, fairqueue.Left); err != nil {
			h.t.Fatal(err)
		}
	}
}

// TestQueueLostWithItsClock: requests are put into the queue again after a failover to a store that has lost it and has another clock. They
// keep their deadlines, and those that leave at the same time do not stay in the queue.
func TestQueueLostWithItsClock(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		st := &otherClock{Store: h.store}
		d, busy := h.fullInstance(st)
		defer d.Close()
		first := waitOn(h.t.Context(), d, "first", 20*time.Second)
		until := time.Now().Add(20 * time.Second).UnixMilli()
		ctx, cancel := context.WithCancel(h.t.Context())
		for i := range 20 {
			waitOn(ctx, d, fmt.Sprint("leaves-", i), 30*time.Second)
		}
		time.Sleep(time.Second)
		for range 3 {
			st.jump(time.Minute)
			h.loseQueue()
			time.Sleep(500 * time.Millisecond)
			if n := len(h.queued()); n != 21 {
				t.Fatalf("the queue has %d requests, want 21", n)
			}
		}
		st.jump(time.Minute)
		h.loseQueue()
		time.AfterFunc(200*time.Millisecond, cancel)
		time.Sleep(time.Second)
		if q := h.queued(); len(q) != 1 || q[0].Deadline < until-5 || q[0].Deadline > until+5 {
			t.Fatalf("the queue has %+v, want one request that waits until %d", q, until)
		}
		h.finish(d, busy)
		synctest.Wait()
		if !first.hasEnded() || first.placement.Node != "node-a" {
			t.Errorf("placed %v: %+v", first.hasEnded(), first.placement)
		}
	})
}

// TestClockOfTheStoreIsOld: a request is put into the queue, with the same name, although its instance has not learnt before that the clock
// of the store has changed.
func TestClockOfTheStoreIsOld(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		st := &otherClock{Store: h.store}
		d, _ := h.fullInstance(st)
		defer d.Close()
		st.jump(time.Minute)
		w := waitOn(h.t.Context(), d, "w", 20*time.Second)
		if w.hasEnded() || len(h.queued()) != 1 {
			t.Fatalf("ended %v, and %d requests are in the queue", w.hasEnded(), len(h.queued()))
		}
		names := 0
		st.names.Range(func(any, any) bool {
			names++
			return true
		})
		if names != 1 {
			t.Errorf("it had %d names in the queue, want 1", names)
		}
		<-w.done
		if took := w.endedAt.Sub(w.beganAt); took != 20*time.Second {
			t.Errorf("it waited for %v, want 20 s", took)
		}
	})
}
