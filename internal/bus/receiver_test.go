package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

func TestSendAndReceive(t *testing.T) {
	withHarness(t, func(h *harness) {
		a, b := h.startInstance("a"), h.startInstance("b")
		for i := range 3 {
			if err := h.send(a, "b", syncKind, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		h.wantHandled("b", "0", "1", "2")
		if err := h.send(b, "a", asyncKind, "back"); err != nil {
			t.Fatal(err)
		}
		h.wantHandled("a", "back")
		if err := h.send(a, "absent", syncKind, "x"); !errors.Is(err, bus.ErrAbsent) {
			t.Errorf("to an absent instance: %v", err)
		}
		if s := h.instanceState("b"); s.Inbox != 0 || s.Pending != 0 {
			t.Errorf("handled messages are still in the inbox: %+v", s)
		}
	})
}

func TestSendToFullInbox(t *testing.T) {
	withHarness(t, func(h *harness) {
		a := h.startInstance("a")
		if err := h.Announce(t.Context(), store.AnnounceParams{ID: "b", TTL: time.Hour}); err != nil { // without a receiver
			t.Fatal(err)
		}
		var err error
		sent := 0
		for ; err == nil && sent < 100_000; sent++ {
			err = h.send(a, "b", syncKind, "x")
		}
		if !errors.Is(err, bus.ErrFull) || sent < 1000 {
			t.Errorf("after %d messages: %v", sent, err)
		}
	})
}

func TestDuplicateMessageIsHandledOnce(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.startInstance("b")
		body, err := json.Marshal(bus.Message{ID: "a.1", From: "a", Kind: syncKind, TTLMS: 60_000, Body: json.RawMessage(`"once"`)})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := h.Post(t.Context(), store.PostParams{To: "b", Body: body, MaxMessages: 10}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		h.wantHandled("b", "once")
	})
}

func TestExpiredMessageIsDropped(t *testing.T) {
	withHarness(t, func(h *harness) {
		a := h.startInstance("a")
		if err := h.Announce(t.Context(), store.AnnounceParams{ID: "b", TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if err := a.Send(t.Context(), "b", syncKind, 2*time.Second, "late"); err != nil {
			t.Fatal(err)
		}
		if err := a.Send(t.Context(), "b", syncKind, time.Minute, "in time"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		h.startInstance("b")
		h.wantHandled("b", "in time")
		if s := h.instanceState("b"); s.Inbox != 0 || s.DeadLetters != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestFailedMessageIsRetried: a message whose handler failed or panicked is delivered again until it is handled.
func TestFailedMessageIsRetried(t *testing.T) {
	for name, kind := range map[string]bus.Kind{"sync": syncKind, "async": asyncKind} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				a := h.startInstance("a")
				h.startInstance("b")
				h.failures = 3
				if err := h.send(a, "b", kind, "handled"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute / 2)
				h.wantHandled("b", "handled")
				if s := h.instanceState("b"); s.Inbox != 0 || s.DeadLetters != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestHandlerContextEndsWithMessage: the context of a handler ends when the message expires.
func TestHandlerContextEndsWithMessage(t *testing.T) {
	withHarness(t, func(h *harness) {
		var took time.Duration
		b := bus.New(bus.Config{
			Instance: "b", TTL: ttl, Block: time.Second, Keep: time.Hour, About: func() bus.About { return bus.About{} },
		}, h.Store, telemetry.New(), slog.New(slog.DiscardHandler))
		r := bus.NewReceiver(b, map[bus.Kind]bus.Handler{syncKind: {Handle: func(ctx context.Context, _ *bus.Message) error {
			began := time.Now()
			<-ctx.Done()
			took = time.Since(began)
			return nil
		}}}, ignoreDead)
		if err := b.Announce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Send(t.Context(), "b", syncKind, 3*time.Second, "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		runReceiver(h.t, r)
		time.Sleep(time.Minute)
		synctest.Wait()
		if took != 2*time.Second {
			t.Errorf("the handler of a message that had 2 s left ended after %v", took)
		}
	})
}

// TestStoreErrorsDoNotCountAsFailures: a message whose handler could not reach the store (another master of a cluster) for a while does not
// become a dead letter.
func TestStoreErrorsDoNotCountAsFailures(t *testing.T) {
	withHarness(t, func(h *harness) {
		a := h.startInstance("a")
		h.startInstance("b")
		h.mu.Lock()
		h.failures, h.storeDown = 1<<20, true // another part of the store is down
		h.mu.Unlock()
		if err := h.send(a, "b", asyncKind, "undelivered"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(45 * time.Second) // the duration of a failover
		h.mu.Lock()
		h.failures = 0
		h.mu.Unlock()
		time.Sleep(10 * time.Second)
		if s := h.instanceState("b"); s.DeadLetters != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestFifthFailureMakesDeadLetter: only before the fifth failure the log says that the message is tried again, and its counter is removed
// after it.
func TestFifthFailureMakesDeadLetter(t *testing.T) {
	withHarness(t, func(h *harness) {
		const storeFailures, handlerFailures = 2, 5
		log := make(logLines, 64)
		b := bus.New(bus.Config{
			Instance: "b", TTL: ttl, Block: time.Second, Keep: time.Hour, About: func() bus.About { return bus.About{} },
		}, h.Store, telemetry.New(), slog.New(slog.NewJSONHandler(log, nil)))
		tries := 0
		r := bus.NewReceiver(b, map[bus.Kind]bus.Handler{syncKind: {Handle: func(context.Context, *bus.Message) error {
			if tries++; tries <= storeFailures {
				return store.ErrDown
			}
			return errors.New("the handler fails")
		}}}, ignoreDead)
		if err := b.Announce(t.Context()); err != nil {
			t.Fatal(err)
		}
		runReceiver(h.t, r)
		if err := b.Send(t.Context(), "b", syncKind, time.Hour, "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()

		retries, dead := 0, 0
		for len(log) > 0 {
			switch e := <-log; {
			case strings.Contains(e.Msg, "it is tried again"):
				retries++
			case e.Msg == deadLetterLogMessage:
				dead++
				if e.Tries != storeFailures+handlerFailures || e.Reason != "FAILED" {
					t.Errorf("%+v", e)
				}
			}
		}
		if tries != storeFailures+handlerFailures || retries != storeFailures+handlerFailures-1 || dead != 1 {
			t.Errorf("%d tries, %d log lines about a retry, %d dead letters", tries, retries, dead)
		}
		if n := r.Excused(); n != 0 {
			t.Errorf("%d dead letters are still counted", n)
		}
	})
}
