package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// TestUnreadableAndFailedMessagesBecomeDeadLetters: messages that cannot be read, or that failed too often, become dead letters, and no
// other message waits for them.
func TestUnreadableAndFailedMessagesBecomeDeadLetters(t *testing.T) {
	withHarness(t, func(h *harness) {
		a := h.startInstance("a")
		b := h.startInstance("b")
		for _, body := range []string{"not JSON", `{"kind":"odd"}`} {
			if _, err := h.Post(t.Context(), store.PostParams{To: "b", Body: []byte(body), MaxMessages: 10}); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.send(a, "b", syncKind, "handled"); err != nil {
			t.Fatal(err)
		}
		h.wantHandled("b", "handled")
		h.failures = 1 << 20
		if err := h.send(a, "b", syncKind, "failing"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		h.wantHandled("b", "handled")
		dead, err := h.DeadLetters(t.Context(), "b", "", 10)
		if err != nil {
			t.Fatal(err)
		}
		var reasons []string
		for _, d := range dead {
			reasons = append(reasons, fmt.Sprintf("%s after %d", d.Reason, d.Deliveries))
		}
		if want := []string{"NOT_UNDERSTOOD after 1", "NOT_UNDERSTOOD after 1", "FAILED after 5"}; !slices.Equal(reasons, want) {
			t.Errorf("dead letters: %q, want %q", reasons, want)
		}
		if s := h.instanceState("b"); s.Inbox != 0 || s.DeadLetters != 3 {
			t.Errorf("%+v", s)
		}
		for kind, want := range map[bus.Kind]float64{"unknown": 2, syncKind: 1} { // whatever a message says, the label is one of ours
			if got := testutil.ToFloat64(b.metrics.MessagesHandled.WithLabelValues(string(kind), "dead")); got != want {
				t.Errorf("%v dead letters of the kind %q were counted, want %v", got, kind, want)
			}
		}
	})
}

// TestUnreadableBodyIsDeadLetterAtOnce: a message whose body cannot be decoded becomes a dead letter at its first delivery, and the log has
// the same id as the list.
func TestUnreadableBodyIsDeadLetterAtOnce(t *testing.T) {
	onBothStores(t, func(t *testing.T, st store.Store) {
		log := make(logLines, 64)
		b := newBus(t, st, "b", time.Minute, log)
		runReceiver(t, bus.NewReceiver(b, map[bus.Kind]bus.Handler{
			syncKind: {Handle: bus.Decoding(mustNotHandle)}, asyncKind: {Handle: bus.Decoding(mustNotHandle), Async: true},
		}, ignoreDead))
		for _, kind := range []bus.Kind{syncKind, asyncKind} {
			text := `{"id":"p1","from":"x","kind":"` + string(kind) + `","ttl_ms":2000,"body":[1]}`
			postRaw(t, st, "b", text)
			e := log.waitForDeadLetter(t)
			d, err := b.DeadLetter(t.Context(), e.ID)
			if err != nil {
				t.Fatalf("the log says %+v: %v", e, err)
			}
			if d.Reason != "NOT_UNDERSTOOD" || d.Kind != kind || d.Deliveries != 1 || e.Tries != 1 || e.Reason != d.Reason || e.Bytes != len(text) {
				t.Errorf("%+v; the log says %+v", d, e)
			}
			if err := b.Purge(t.Context(), e.ID); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestDeadLettersOfOtherInstances: every instance can list, replay and purge the dead letters of the others.
func TestDeadLettersOfOtherInstances(t *testing.T) {
	withHarness(t, func(h *harness) {
		a := h.startInstance("a")
		h.startInstance("b")
		h.failures = 1 << 20
		for _, text := range []string{"one", "two"} {
			if err := a.Send(t.Context(), "b", syncKind, time.Hour, text); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		dead, total, err := a.DeadLetters(t.Context(), 10)
		if err != nil || len(dead) != 2 || total != 2 || dead[0].Kind != syncKind || dead[0].From != "a" || dead[0].Inbox != "b" {
			t.Fatalf("%+v, %v", dead, err)
		}
		if n := a.DeadLetterCount(); n != 2 {
			t.Errorf("%d are counted, want 2", n)
		}
		if first, total, err := a.DeadLetters(t.Context(), 1); err != nil || len(first) != 1 || total != 2 {
			t.Errorf("one of them: %+v of %d, %v", first, total, err)
		}
		if d, err := a.DeadLetter(t.Context(), dead[1].Name()); err != nil || d.Reason != "FAILED" || string(d.Body) != `"two"` {
			t.Errorf("%+v, %v", d, err)
		}
		h.mu.Lock()
		h.failures = 0
		h.mu.Unlock()
		if err := a.Replay(t.Context(), dead[0].Name()); err != nil {
			t.Fatal(err)
		}
		h.wantHandled("a", "one")
		if err := a.Purge(t.Context(), dead[1].Name()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{dead[0].Name(), "b/1-1", "nonsense"} {
			if err := errors.Join(a.Replay(t.Context(), name), a.Purge(t.Context(), name)); !errors.Is(err, bus.ErrNoDeadLetter) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if left, total, err := a.DeadLetters(t.Context(), 10); err != nil || len(left) != 0 || total != 0 {
			t.Errorf("%+v, %v", left, err)
		}
		time.Sleep(time.Minute)
		if n := a.DeadLetterCount(); n != 0 {
			t.Errorf("%d are counted, want 0", n)
		}
		peers, err := a.Peers(t.Context())
		if err != nil || len(peers) != 2 || !peers[0].This || peers[1].This || peers[1].Name != "b" {
			t.Errorf("%+v, %v", peers, err)
		}
	})
}

// TestUnknownDeadLetter: a name without a dead letter is answered with ErrNoDeadLetter, whatever its form.
func TestUnknownDeadLetter(t *testing.T) {
	onBothStores(t, func(t *testing.T, st store.Store) {
		b := newBus(t, st, "b", time.Minute, make(logLines, 64))
		postRaw(t, st, "b", "x") // without any dead letter, Redis does not parse ids
		messages, err := st.Fetch(t.Context(), store.FetchParams{Inbox: "b", Wait: time.Second, Limit: 1})
		if err != nil || len(messages) != 1 {
			t.Fatal(messages, err)
		}
		if _, err := st.DeadLetter(t.Context(), store.DeadLetterParams{Inbox: "b", Message: messages[0], Reason: "FAILED", Keep: time.Hour}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"b/abc", "b/", "/", "b/1-1", "absent/1-x", "nonsense"} {
			if err := b.Purge(t.Context(), name); !errors.Is(err, bus.ErrNoDeadLetter) {
				t.Errorf("purge %q: %v", name, err)
			}
			if err := b.Replay(t.Context(), name); !errors.Is(err, bus.ErrNoDeadLetter) {
				t.Errorf("replay %q: %v", name, err)
			}
		}
	})
}

// TestReplayKeepsAge: a replay does not extend the TTL of a message. An expired dead letter is not replayed, and a replayed message that
// expires before it is handled is dropped.
func TestReplayKeepsAge(t *testing.T) {
	withHarness(t, func(h *harness) {
		a := h.startInstance("a")
		h.startInstance("b")
		h.failures = 1 << 20
		const messageTTL = 2 * time.Minute
		if err := a.Send(t.Context(), "b", syncKind, messageTTL, "one"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(messageTTL - 10*time.Second)
		replay := func() error {
			t.Helper()
			dead, _, err := a.DeadLetters(t.Context(), 10)
			if err != nil || len(dead) != 1 {
				t.Fatalf("%+v, %v; want one dead letter", dead, err)
			}
			return a.Replay(t.Context(), dead[0].Name())
		}
		if err := replay(); err != nil {
			t.Errorf("before its expiry: %v", err)
		}
		time.Sleep(time.Minute) // it is retried until it expires
		h.wantHandled("a")
		if dead, _, err := a.DeadLetters(t.Context(), 10); err != nil || len(dead) != 0 {
			t.Errorf("an expired message became a dead letter: %+v, %v", dead, err)
		}
		if err := a.Send(t.Context(), "b", syncKind, messageTTL, "two"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(messageTTL + time.Second)
		if err := replay(); !errors.Is(err, bus.ErrExpired) {
			t.Errorf("after its expiry: %v", err)
		}
		if dead, _, err := a.DeadLetters(t.Context(), 10); err != nil || len(dead) != 1 {
			t.Errorf("dead letters after the refused replay: %+v, %v", dead, err)
		}
	})
}

// TestDeadLetterReturnsStoreError: an unavailable store is not answered with ErrNoDeadLetter.
func TestDeadLetterReturnsStoreError(t *testing.T) {
	withHarness(t, func(h *harness) {
		b := bus.New(bus.Config{Instance: "b", TTL: ttl, About: func() bus.About { return bus.About{} }}, deadLettersDownStore{instanceStore{h, "b"}}, telemetry.New(), slog.New(slog.DiscardHandler))
		if _, err := b.DeadLetter(t.Context(), "a/1-1"); errors.Is(err, bus.ErrNoDeadLetter) {
			t.Errorf("the store is down, the error is: %v", err)
		}
	})
}

// deadLettersDownStore is a store whose dead letters cannot be read.
type deadLettersDownStore struct{ instanceStore }

func (deadLettersDownStore) DeadLetters(context.Context, core.InstanceID, string, int) ([]store.DeadLetter, error) {
	return nil, errStoreDown
}
