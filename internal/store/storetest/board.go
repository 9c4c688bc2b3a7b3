package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/store"
)

func exerciseBoard(_ *testing.T, run runner) {
	run("messages enter a session's stream in utterance order, each once", func(t *testing.T, h *Harness) {
		const n = 40
		append1 := func(i int64, body string) int64 {
			seq, err := h.Store.Append(t.Context(), store.AppendParams{Session: "room-1", Index: i, Body: []byte(body), Keep: h.Timing.Keep})
			if err != nil {
				t.Errorf("append %d: %v", i, err)
			}
			return seq
		}
		var wg sync.WaitGroup
		for _, i := range rand.Perm(n) {
			wg.Go(func() {
				append1(int64(i), fmt.Sprintf("m%d", i))
				append1(int64(i), "a second one for the same utterance")
			})
		}
		wg.Wait()
		if seq := append1(0, "late"); seq != n {
			t.Errorf("the stream ends at %d, want %d", seq, n)
		}
		var want []store.Message
		for i := range int64(n) {
			want = append(want, store.Message{Seq: i + 1, Index: i, Body: fmt.Appendf(nil, "m%d", i)})
		}
		for _, after := range []int64{0, 17, n} {
			got, err := h.Store.Read(t.Context(), store.ReadParams{Session: "room-1", After: after})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[after:], append([]store.Message{}, got...)); diff != "" {
				t.Errorf("read after %d (-want +got):\n%s", after, diff)
			}
		}
		got, err := h.Store.Read(t.Context(), store.ReadParams{Session: "room-1", After: 10, Limit: 3})
		if err != nil || len(got) != 3 || got[0].Seq != 11 {
			t.Errorf("a limited read: %v, %v", got, err)
		}
	})

	run("a gap holds back what comes after it", func(t *testing.T, h *Harness) {
		put := func(i int64) int64 {
			seq, err := h.Store.Append(t.Context(), store.AppendParams{Session: "room-1", Index: i, Body: []byte("x"), Keep: h.Timing.Keep})
			if err != nil {
				t.Fatal(err)
			}
			return seq
		}
		for _, step := range []struct{ index, want int64 }{{1, 0}, {2, 0}, {0, 3}, {4, 3}, {3, 5}} {
			if seq := put(step.index); seq != step.want {
				t.Errorf("after utterance %d the stream ends at %d, want %d", step.index, seq, step.want)
			}
		}
	})

	run("an outbox is forgotten after its last message", func(t *testing.T, h *Harness) {
		p := store.AppendParams{Session: "room-1", Body: []byte("x"), Keep: h.Timing.Presence}
		if _, err := h.Store.Append(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		h.Wait(h.Timing.Presence + h.Slack)
		if got, err := h.Store.Read(t.Context(), store.ReadParams{Session: "room-1"}); err != nil || len(got) != 0 {
			t.Errorf("read: %v, %v", got, err)
		}
	})

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

	run("a session's state is there until it expires, and is not a snapshot", func(t *testing.T, h *Harness) {
		if got, err := h.Store.LoadSession(t.Context(), "room-1"); err != nil || got != nil {
			t.Fatalf("the state of a session that is not known: %q, %v", got, err)
		}
		for _, body := range []string{"one", "two"} {
			if err := h.Store.SaveSession(t.Context(), store.SaveParams{Session: "room-1", Body: []byte(body), Keep: h.Timing.Presence}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := h.Store.LoadSession(t.Context(), "room-1"); err != nil || string(got) != "two" {
			t.Errorf("read %q, %v; want what was saved last", got, err)
		}
		if got, err := h.Store.LoadSnapshot(t.Context(), "room-1"); err != nil || got != nil {
			t.Errorf("a session's state is a snapshot: %q, %v", got, err)
		}
		h.Wait(h.Timing.Presence + h.Slack)
		if got, err := h.Store.LoadSession(t.Context(), "room-1"); err != nil || got != nil {
			t.Errorf("after its time: %q, %v", got, err)
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
