package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// boardBehaviours is the specification of Board.
var boardBehaviours = []behaviour{
	{"a rate of one allows one of concurrent uses in each window", testAllowOnce},
	{"a rate allows its limit in each window", testAllow},
	{"a lock has one holder, and its fence grows with every change of holder", testLock},
}

func testAllowOnce(t *testing.T, h *Harness) {
	for range 2 {
		repeatWhileSlow(t, func(core.NodeID) (inTime bool) {
			var first atomic.Int32
			var wg sync.WaitGroup
			began := time.Now()
			for range 16 {
				wg.Go(func() {
					ok, err := h.Store.Allow(t.Context(), store.AllowParams{Key: "asr@1", Limit: 1, Window: h.Timing.Presence})
					if err != nil {
						t.Error(err)
					}
					if ok {
						first.Add(1)
					}
				})
			}
			wg.Wait()
			inTime = time.Since(began) < h.Timing.Presence
			if inTime && first.Load() != 1 {
				t.Errorf("true %d times in a window, want once", first.Load())
			}
			h.Wait(h.Timing.Presence + h.Slack)
			return inTime
		})
	}
}

func testAllow(t *testing.T, h *Harness) {
	p := store.AllowParams{Key: "node-a", Limit: 5, Window: h.Timing.Presence}
	for range 2 {
		repeatWhileSlow(t, func(core.NodeID) (inTime bool) {
			allowed, began := 0, time.Now()
			for range 8 {
				ok, err := h.Store.Allow(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					allowed++
				}
			}
			inTime = time.Since(began) < h.Timing.Presence
			if inTime && allowed != p.Limit {
				t.Errorf("%d were allowed in a window, want %d", allowed, p.Limit)
			}
			h.Wait(h.Timing.Presence + h.Slack)
			return inTime
		})
	}
}

func testLock(t *testing.T, h *Harness) {
	acquire := func(holder string) store.Lock {
		l, err := h.Store.Lock(t.Context(), store.LockParams{Name: "task", Holder: holder, TTL: h.Timing.Presence})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a := acquire("a")
	if !a.Held {
		t.Fatal("a free lock was refused")
	}
	if b := acquire("b"); b.Held {
		t.Error("a held lock was acquired by another holder")
	}
	if renewed := acquire("a"); !renewed.Held || renewed.Fence != a.Fence {
		t.Errorf("the holder's renewal: %+v after %+v", renewed, a)
	}
	if err := h.Store.Unlock(t.Context(), store.LockParams{Name: "task", Holder: "b"}); err != nil {
		t.Fatal(err)
	}
	if b := acquire("b"); b.Held {
		t.Error("an unlock of another holder released the lock")
	}
	h.Wait(h.Timing.Presence + h.Slack)
	b := acquire("b")
	if !b.Held || b.Fence <= a.Fence {
		t.Errorf("an expired lock: %+v after %+v", b, a)
	}
	if err := h.Store.Unlock(t.Context(), store.LockParams{Name: "task", Holder: "b"}); err != nil {
		t.Fatal(err)
	}
	if c := acquire("a"); !c.Held || c.Fence <= b.Fence {
		t.Errorf("a released lock: %+v after %+v", c, b)
	}
}
