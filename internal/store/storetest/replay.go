package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// deadLetter makes a dead letter of instance i-1.
func (h *Harness) deadLetter(t *testing.T, body string) store.DeadLetter {
	t.Helper()
	h.announce(t, "i-1")
	h.post(t, "i-1", body)
	letters := h.fetch(t, "i-1", 8)
	if len(letters) != 1 {
		t.Fatalf("fetched %+v, want one letter", letters)
	}
	p := store.DeadLetterParams{Inbox: "i-1", Message: letters[0], Reason: "FAILED", Keep: 20 * h.Timing.Presence}
	id, err := h.Store.DeadLetter(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range h.dead(t) {
		if d.ID == id {
			return d
		}
	}
	t.Fatalf("dead letter %s is not listed", id)
	panic("unreachable")
}

// dead lists the dead letters of instance i-1.
func (h *Harness) dead(t *testing.T) []store.DeadLetter {
	t.Helper()
	list, err := h.Store.DeadLetters(t.Context(), "i-1", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (h *Harness) replay(t *testing.T, id string, to core.InstanceID) store.PostResult {
	t.Helper()
	posted, err := h.Store.Replay(t.Context(), store.ReplayParams{Inbox: "i-1", ID: id, To: to, MaxMessages: 4})
	if err != nil {
		t.Fatal(err)
	}
	return posted
}

func exerciseReplay(_ *testing.T, run runner) {
	run("a replayed letter is as old as it was, however it is read", func(t *testing.T, h *Harness) {
		d := h.deadLetter(t, "a")
		h.Wait(h.Timing.Presence)
		old := h.Timing.Presence
		if again := h.dead(t); len(again) != 1 || again[0].Age < old {
			t.Errorf("among the dead: %+v, want one that is %s old", again, old)
		}
		for _, to := range []core.InstanceID{"i-1", "i-2"} {
			h.announce(t, to)
			if got := h.replay(t, d.ID, to); got != store.Accepted {
				t.Fatalf("replay to %s: %d", to, got)
			}
			if left := h.dead(t); len(left) != 0 {
				t.Errorf("after it was replayed: %+v", left)
			}
			letters := h.fetch(t, to, 8)
			if len(letters) != 1 || string(letters[0].Body) != "a" || letters[0].Deliveries != 1 || letters[0].Age < old {
				t.Fatalf("fetched: %+v, want one that is %s old", letters, old)
			}
			unsettled, err := h.Store.Pending(t.Context(), store.FetchParams{Inbox: to, Limit: 8})
			if err != nil || len(unsettled) != 1 || unsettled[0].Age < old {
				t.Errorf("fetched again: %+v, %v", unsettled, err)
			}
			if to == "i-1" { // it dies again
				p := store.DeadLetterParams{Inbox: to, Message: letters[0], Reason: "FAILED", Keep: 20 * h.Timing.Presence}
				if d.ID, err = h.Store.DeadLetter(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
		}
		h.Wait(h.Timing.Presence + h.Slack)
		if left, err := h.Store.FetchAbandoned(t.Context(), "i-2", 8); err != nil || len(left) != 1 || left[0].Age < 2*old {
			t.Errorf("left behind: %+v, %v", left, err)
		}
	})

	run("a letter that cannot be replayed stays among the dead", func(t *testing.T, h *Harness) {
		d := h.deadLetter(t, "a")
		if got := h.replay(t, d.ID, "i-away"); got != store.InstanceAbsent {
			t.Errorf("to one that is not there: %d", got)
		}
		h.announce(t, "i-2")
		for i := range 4 {
			h.post(t, "i-2", fmt.Sprint(i))
		}
		if got := h.replay(t, d.ID, "i-2"); got != store.InboxFull {
			t.Errorf("to one that is full: %d", got)
		}
		for _, none := range []string{"abc", "", "-", "1-", "-1", "1-x", "1-1"} {
			if got := h.replay(t, none, "i-1"); got != store.NoDeadLetter {
				t.Errorf("what is called %q: %d", none, got)
			}
		}
		h.announce(t, "i-1")
		if got := h.replay(t, d.ID, "i-1"); got != store.Accepted {
			t.Errorf("then to one that has room: %d", got)
		}
		if got := h.replay(t, d.ID, "i-1"); got != store.NoDeadLetter {
			t.Errorf("once more: %d", got)
		}
	})

	run("of those who replay or discard a letter at once, one does", func(t *testing.T, h *Harness) {
		for round := range 10 {
			d := h.deadLetter(t, fmt.Sprint(round))
			var mu sync.Mutex
			taken, discarded := 0, 0
			var all sync.WaitGroup
			for i := range 4 {
				to := core.InstanceID(fmt.Sprintf("i-to-%d", i))
				h.announce(t, to)
				all.Go(func() {
					posted, err := h.Store.Replay(t.Context(), store.ReplayParams{Inbox: "i-1", ID: d.ID, To: to, MaxMessages: 100})
					mu.Lock()
					defer mu.Unlock()
					if err != nil || posted != store.Accepted && posted != store.NoDeadLetter {
						t.Errorf("replay: %d, %v", posted, err)
					}
					if posted == store.Accepted {
						taken++
					}
				})
				all.Go(func() {
					ids := []string{d.ID}
					if i == 0 {
						ids = nil
					}
					n, err := h.Store.Discard(t.Context(), "i-1", ids...)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Errorf("discard: %v", err)
					}
					discarded += n
				})
			}
			all.Wait()
			found := 0
			for i := range 4 {
				to := core.InstanceID(fmt.Sprintf("i-to-%d", i))
				letters, err := h.Store.Fetch(t.Context(), store.FetchParams{Inbox: to, Wait: time.Millisecond, Limit: 8})
				if err != nil {
					t.Fatal(err)
				}
				found += len(letters)
			}
			if taken+discarded != 1 || found != taken || len(h.dead(t)) != 0 {
				t.Errorf("round %d: replayed %d times, discarded %d, in inboxes %d, still dead %+v", round, taken, discarded, found, h.dead(t))
			}
		}
	})
}
