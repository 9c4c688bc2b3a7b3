package session_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// runTwoInstances runs a test with two instances that can send each other messages.
func runTwoInstances(t *testing.T, fn func(h *harness, b *session.Registry)) {
	t.Helper()
	run(t, func(h *harness) {
		h.buses = make(map[core.InstanceID]*bus.Bus)
		h.restartWith(h.store, h.dispatcher) // the harness's own instance, which is i-2 now
		other := h.newRegistry(h.store, h.dispatcher)
		defer other.Close()
		ctx, stop := context.WithCancel(h.t.Context())
		defer stop()
		for id, registry := range map[core.InstanceID]*session.Registry{"i-2": h.registry, "i-3": other} {
			b := bus.NewReceiver(h.buses[id], registry.Handlers(), func(context.Context, core.InstanceID) error { return nil })
			if err := b.Announce(ctx); err != nil {
				t.Fatal(err)
			}
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				b.Run(ctx)
			}()
			defer func() {
				stop()
				<-stopped
			}()
		}
		fn(h, other)
	})
}

// A result that another instance decided is delivered at once, and not at the next check.
func TestResultOfAnotherInstanceIsDeliveredAtOnce(t *testing.T) {
	runTwoInstances(t, func(h *harness, b *session.Registry) {
		s, conn := h.start(func(in *wire.SessionStart) { in.Partials = true })
		job := h.commit(s)
		b.SendPartial(h.t.Context(), "i-2", &wire.JobPartial{ActiveJob: wire.ActiveJob{JobID: string(job), AttemptID: 1}, Rev: 1, TextSrc: "hel"})
		synctest.Wait()
		if m := conn.last(t, "partial"); m["text_src"] != "hel" {
			t.Errorf("partial: %v", m)
		}
		h.dispatcher.mu.Lock()
		spec := h.dispatcher.placed[job]
		h.dispatcher.mu.Unlock()
		if err := b.JobEnded(h.t.Context(), endedJob(job, spec, core.StateDone, "", `{"text_tgt":"x"}`), time.Now()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // without any passing of time
		wantTerminals(t, conn, "0 x")
		if held := h.registry.AudioBuffer().Held(); held != 0 {
			t.Errorf("%d bytes are held for a job that has ended elsewhere", held)
		}
	})
}

// The instance that has the audio resumes the job; without the audio it does nothing.
func TestAudioWantedResumesTheJob(t *testing.T) {
	runTwoInstances(t, func(h *harness, b *session.Registry) {
		s, _ := h.start()
		job := h.commit(s)
		h.dispatcher.mu.Lock()
		spec := h.dispatcher.placed[job]
		h.dispatcher.mu.Unlock()
		wanted := endedJob(job, spec, core.StateRetrying, core.ReasonNodeFailed, "")
		b.AudioWanted(h.t.Context(), wanted)
		synctest.Wait()
		h.dispatcher.mu.Lock()
		resumed := len(h.dispatcher.resumed)
		h.dispatcher.mu.Unlock()
		if resumed != 1 {
			t.Errorf("%d jobs were resumed", resumed)
		}
		h.complete(job, "x") // after that no instance has the audio
		b.AudioWanted(h.t.Context(), wanted)
		synctest.Wait()
		h.dispatcher.mu.Lock()
		defer h.dispatcher.mu.Unlock()
		if len(h.dispatcher.resumed) != 1 {
			t.Errorf("%d jobs were resumed", len(h.dispatcher.resumed))
		}
	})
}

// The previous instance of a session that was taken over ends it at once.
func TestMovedSessionEndsOnThePreviousInstance(t *testing.T) {
	runTwoInstances(t, func(h *harness, b *session.Registry) {
		s, conn := h.start()
		nextConn := &fakeConn{}
		if _, err := b.Resume(h.t.Context(), session.ResumeParams{Session: s.ID(), Token: conn.resumeToken(t)}, nextConn); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if code, _ := conn.closed(); code != wire.CloseReplaced {
			t.Errorf("the first connection was closed with %d", code)
		}
		if h.registry.Len() != 0 || b.Len() != 1 {
			t.Errorf("%d sessions on the first instance, %d on the second", h.registry.Len(), b.Len())
		}
	})
}

// Inboxes are bounded in messages, so the partial results of one node must not fill them with bytes.
func TestLargePartialsAreNotSentToOtherInstances(t *testing.T) {
	t.Parallel()
	st := memstore.New(store.Timing{Presence: 15 * time.Second, Job: 30 * time.Second})
	if err := st.Announce(t.Context(), store.AnnounceParams{ID: "i-b", Body: []byte("{}"), TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	b := bus.New(bus.Config{Instance: "i-a", TTL: 3 * time.Second, About: func() bus.About { return bus.About{} }}, st, telemetry.New(), slog.New(slog.DiscardHandler))
	d := session.NewDirectory(session.Config{Instance: "i-a"}, st, b, audio.NewBuffer(0), &telemetry.New().Sessions, slog.New(slog.DiscardHandler))
	text := strings.Repeat("x", 250_000)
	const sent = 200 // how many one node sends while i-b is busy
	for rev := range sent {
		d.SendPartial(t.Context(), "i-b", &wire.JobPartial{ActiveJob: wire.ActiveJob{JobID: "j", AttemptID: 1}, Rev: int64(rev), TextTgt: text})
	}
	messages, err := st.Fetch(t.Context(), store.FetchParams{Inbox: "i-b", Wait: time.Millisecond, Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, m := range messages {
		size += len(m.Body)
	}
	if size > 1<<20 {
		t.Errorf("%d partial results of one job are %d messages of %d MB", sent, len(messages), size>>20)
	}
}
