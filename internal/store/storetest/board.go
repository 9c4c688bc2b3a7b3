package storetest

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/store"
)

func exerciseBoard(_ *testing.T, run runner) {
	run("a debounce is true once a window", func(t *testing.T, h *Harness) {
		for round := range 2 {
			var first atomic.Int32
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					ok, err := h.Store.Debounce(t.Context(), "asr@1", h.Timing.Presence)
					if err != nil {
						t.Error(err)
					}
					if ok {
						first.Add(1)
					}
				})
			}
			wg.Wait()
			if first.Load() != 1 {
				t.Errorf("round %d: %d were first", round, first.Load())
			}
			h.Wait(h.Timing.Presence + h.Slack)
		}
	})

	run("a rate allows as many as it says in each window", func(t *testing.T, h *Harness) {
		p := store.AllowParams{Key: "node-a", Limit: 5, Window: h.Timing.Presence}
		for round := range 2 {
			allowed := 0
			for range 8 {
				ok, err := h.Store.Allow(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					allowed++
				}
			}
			if allowed != p.Limit {
				t.Errorf("round %d: %d were allowed, want %d", round, allowed, p.Limit)
			}
			h.Wait(h.Timing.Presence + h.Slack)
		}
	})

	run("a lock has one holder and its fence grows", func(t *testing.T, h *Harness) {
		take := func(holder string) store.Lock {
			l, err := h.Store.Lock(t.Context(), store.LockParams{Name: "sweep", Holder: holder, TTL: h.Timing.Presence})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		a := take("a")
		if !a.Held {
			t.Fatal("a free lock was refused")
		}
		if b := take("b"); b.Held {
			t.Error("a held lock was given to another")
		}
		if again := take("a"); !again.Held || again.Fence != a.Fence {
			t.Errorf("the holder's renewal: %+v after %+v", again, a)
		}
		if err := h.Store.Unlock(t.Context(), store.LockParams{Name: "sweep", Holder: "b"}); err != nil {
			t.Fatal(err)
		}
		if b := take("b"); b.Held {
			t.Error("somebody else's unlock freed the lock")
		}
		h.Wait(h.Timing.Presence + h.Slack)
		b := take("b")
		if !b.Held || b.Fence <= a.Fence {
			t.Errorf("an expired lock: %+v after %+v", b, a)
		}
		if err := h.Store.Unlock(t.Context(), store.LockParams{Name: "sweep", Holder: "b"}); err != nil {
			t.Fatal(err)
		}
		if c := take("a"); !c.Held || c.Fence <= b.Fence {
			t.Errorf("a freed lock: %+v after %+v", c, b)
		}
	})

	run("a snapshot is there until it expires", func(t *testing.T, h *Harness) {
		if got, err := h.Store.LoadSnapshot(t.Context(), "stats"); err != nil || got != nil {
			t.Errorf("before it was saved: %q, %v", got, err)
		}
		for _, body := range []string{"one", "two"} {
			if err := h.Store.SaveSnapshot(t.Context(), store.SnapshotParams{Name: "stats", Body: []byte(body), TTL: h.Timing.Presence}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := h.Store.LoadSnapshot(t.Context(), "stats"); err != nil || string(got) != "two" {
			t.Errorf("load: %q, %v", got, err)
		}
		h.Wait(h.Timing.Presence + h.Slack)
		if got, err := h.Store.LoadSnapshot(t.Context(), "stats"); err != nil || got != nil {
			t.Errorf("after it expired: %q, %v", got, err)
		}
	})
}
