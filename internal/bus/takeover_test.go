package bus_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// TestMessagesOfAReturningInstance: messages that another instance fetched while this one was absent, and did not handle, are handled by this
// one soon after it has returned.
func TestMessagesOfAReturningInstance(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.startInstance("a")
		time.Sleep(time.Minute) // nothing is pending for long
		h.mu.Lock()
		h.unreachable["a"] = true
		h.mu.Unlock()
		for h.instanceState("a").Present {
			time.Sleep(100 * time.Millisecond)
		}
		body, err := json.Marshal(bus.Message{ID: "x.1", From: "x", Kind: syncKind, TTLMS: 60_000, Body: json.RawMessage(`"late"`)})
		if err != nil {
			t.Fatal(err)
		}
		// As if the message had arrived a moment before, and another instance had died during the takeover.
		if err := h.Announce(t.Context(), store.AnnounceParams{ID: "a", TTL: time.Nanosecond}); err != nil {
			t.Fatal(err)
		}
		if posted, err := h.Post(t.Context(), store.PostParams{To: "a", Body: body, MaxMessages: 10}); err != nil || posted != store.Accepted {
			t.Fatal(posted, err)
		}
		time.Sleep(time.Nanosecond)
		if fetched, err := h.FetchAbandoned(t.Context(), "a", 10); err != nil || len(fetched) != 1 {
			t.Fatal(fetched, err)
		}
		h.mu.Lock()
		h.unreachable["a"] = false
		h.mu.Unlock()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		h.mu.Lock()
		defer h.mu.Unlock()
		if diff := cmp.Diff([]string{"late"}, h.handled["a"]); diff != "" {
			t.Errorf("handled (-want +got):\n%s", diff)
		}
	})
}

// TestTakeoverFromDeadInstance: one other instance takes over what a dead one left, once, and nothing remains of it.
func TestTakeoverFromDeadInstance(t *testing.T) {
	withHarness(t, func(h *harness) {
		a := h.startInstance("a")
		h.startInstance("b")
		h.startInstance("c")
		a.kill()
		if _, err := h.Post(t.Context(), store.PostParams{To: "a", Body: []byte("not JSON"), MaxMessages: 10}); err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(bus.Message{ID: "x.1", From: "x", Kind: syncKind, TTLMS: 60_000, Body: json.RawMessage(`"unread"`)})
		if err != nil {
			t.Fatal(err)
		}
		if posted, err := h.Post(t.Context(), store.PostParams{To: "a", Body: body, MaxMessages: 10}); err != nil || posted != store.Accepted {
			t.Fatal(posted, err)
		}
		time.Sleep(3 * ttl)
		synctest.Wait()
		h.mu.Lock()
		dead := append(slices.Clone(h.takeovers["b"]), h.takeovers["c"]...)
		handled := append(slices.Clone(h.handled["b"]), h.handled["c"]...)
		h.mu.Unlock()
		if !slices.Equal(dead, []core.InstanceID{"a"}) {
			t.Errorf("taken over: %v, want a once", dead)
		}
		if !slices.Equal(handled, []string{`taken over "unread", never fetched: true`}) {
			t.Errorf("abandoned messages handled: %q", handled)
		}
		// The unreadable message stays as a dead letter.
		if s := h.instanceState("a"); s.Present || s.HasInbox || s.DeadLetters != 1 {
			t.Errorf("after the takeover: %+v", s)
		}
		if _, err := h.Discard(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if s := h.instanceState("a"); s.ID != "" {
			t.Errorf("after its dead letters were discarded: %+v", s)
		}
	})
}

// TestLeaveRemovesInbox: an instance that leaves cleanly leaves nothing to take over.
func TestLeaveRemovesInbox(t *testing.T) {
	withHarness(t, func(h *harness) {
		a := h.startInstance("a")
		h.startInstance("b")
		a.kill()
		if err := a.Leave(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if s := h.instanceState("a"); s.ID != "" {
			t.Errorf("%+v", s)
		}
		time.Sleep(3 * ttl)
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.takeovers["b"]) != 0 {
			t.Errorf("b took over from %v", h.takeovers["b"])
		}
	})
}

// TestTakeoverIsRetriedAfterFailure: onDead is called again after it failed, for example because a lease set could not be read.
func TestTakeoverIsRetriedAfterFailure(t *testing.T) {
	withHarness(t, func(h *harness) {
		a := h.startInstance("a")
		tries := 0
		b := bus.New(bus.Config{Instance: "b", TTL: ttl, Block: time.Second, Keep: time.Hour, About: func() bus.About { return bus.About{} }},
			h.Store, telemetry.New(), slog.New(slog.DiscardHandler))
		r := bus.NewReceiver(b, nil, func(context.Context, core.InstanceID) error {
			if tries++; tries == 1 {
				return errStoreDown
			}
			return nil
		})
		if err := b.Announce(t.Context()); err != nil {
			t.Fatal(err)
		}
		runReceiver(h.t, r)
		a.kill()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if tries < 2 {
			t.Errorf("onDead was called %d time(s) although it failed; a is %+v", tries, h.instanceState("a"))
		}
	})
}

// TestUnhandledAbandonedMessagesDoNotBlockTakeover: abandoned messages that cannot be handled become dead letters, the others are handled
// once, and onDead is called once.
func TestUnhandledAbandonedMessagesDoNotBlockTakeover(t *testing.T) {
	onBothStores(t, func(t *testing.T, st store.Store) {
		const failingKind bus.Kind = "fails"
		log := make(logLines, 256)
		var deaths, handled atomic.Int64
		b := newBus(t, st, "b", 300*time.Millisecond, log) // a third of it is the time between two tries
		handle := bus.Decoding(func(context.Context, *bus.Message, *string) error {
			handled.Add(1)
			return nil
		})
		r := bus.NewReceiver(b, map[bus.Kind]bus.Handler{
			syncKind:    {Handle: handle, TakeOver: func(ctx context.Context, m *bus.Message, _ bool) error { return handle(ctx, m) }},
			failingKind: {Handle: handle, TakeOver: func(context.Context, *bus.Message, bool) error { panic("the handler panics") }},
		}, func(context.Context, core.InstanceID) error {
			deaths.Add(1)
			return nil
		})
		if err := st.Announce(t.Context(), store.AnnounceParams{ID: "a", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		postRaw(t, st, "a", "not JSON")
		postRaw(t, st, "a", `{"id":"q1","kind":"fails","ttl_ms":60000,"body":"x"}`)
		postRaw(t, st, "a", `{"id":"q2","kind":"hello","ttl_ms":60000,"body":[1]}`)
		postRaw(t, st, "a", `{"id":"q3","kind":"hello","ttl_ms":60000,"body":"good"}`)
		if err := st.Announce(t.Context(), store.AnnounceParams{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		runReceiver(t, r)

		got := make(map[string]int)
		for range 3 {
			e := log.waitForDeadLetter(t)
			d, err := b.DeadLetter(t.Context(), e.ID)
			if err != nil || d.Inbox != "a" || d.Deliveries != e.Tries {
				t.Errorf("the log says %+v: %+v, %v", e, d, err)
			}
			got[string(d.DeadLetter.Body[:4])+" "+d.Reason] = d.Deliveries
		}
		want := map[string]int{"not  NOT_UNDERSTOOD": 1, `{"id NOT_UNDERSTOOD`: 1, `{"id FAILED`: 5}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("dead letters (-want +got):\n%s", diff)
		}
		waitForRemovedInbox(t, st, "a")
		if deaths.Load() != 1 || handled.Load() != 1 {
			t.Errorf("onDead was called %d times, %d messages were handled; want one of each", deaths.Load(), handled.Load())
		}
	})
}

// waitForRemovedInbox waits until an instance has no inbox. No event announces that, so it polls.
func waitForRemovedInbox(t *testing.T, st store.Store, id core.InstanceID) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(waitTimeout); ; <-tick.C {
		all, err := st.Instances(t.Context(), store.InstancesParams{Inboxes: true})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(all, func(i store.Instance) bool { return i.ID == id && i.HasInbox }) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the inbox of %s is not removed: %+v", id, all)
		}
	}
}

// TestLongTakeoverKeepsLock: a takeover may take longer than the TTL of its lock. No other instance starts one meanwhile.
func TestLongTakeoverKeepsLock(t *testing.T) {
	withHarness(t, func(h *harness) {
		started := make(chan core.InstanceID, 100)
		h.onDead = func(ctx context.Context, by core.InstanceID) error {
			started <- by
			select {
			case <-time.After(2 * time.Minute):
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		a := h.startInstance("a")
		h.startInstance("b")
		h.startInstance("c")
		a.kill()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if n := len(started); n != 1 {
			t.Errorf("started %d times, want once", n)
		}
		all, err := h.Instances(t.Context(), store.InstancesParams{Inboxes: true})
		if err != nil || len(all) != 2 {
			t.Errorf("a is still listed: %+v, %v", all, err)
		}
	})
}

// TestTakeoverEndsWithLock: the context of a takeover ends when another holder has the lock.
func TestTakeoverEndsWithLock(t *testing.T) {
	withHarness(t, func(h *harness) {
		ended := make(chan error, 100)
		h.onDead = func(ctx context.Context, _ core.InstanceID) error {
			// The store loses the lock, and another holder acquires it.
			lock := store.LockParams{Name: "takeover:a", Holder: "b", TTL: time.Hour}
			if err := h.Unlock(ctx, lock); err != nil {
				t.Error(err)
			}
			lock.Holder = "z"
			if held, err := h.Lock(ctx, lock); err != nil || !held.Held {
				t.Errorf("%+v, %v", held, err)
			}
			select {
			case <-ctx.Done():
				ended <- ctx.Err()
			case <-time.After(time.Minute):
				ended <- nil
			}
			return ctx.Err()
		}
		a := h.startInstance("a")
		h.startInstance("b")
		a.kill()
		time.Sleep(2 * time.Minute)
		if err := <-ended; err == nil {
			t.Error("the takeover continued without the lock")
		}
	})
}
