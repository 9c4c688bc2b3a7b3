package session_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

// peers are two instances that can write to each other.
func peers(t *testing.T, fn func(w *world, b *session.Registry)) {
	t.Helper()
	play(t, func(w *world) {
		w.buses = make(map[core.InstanceID]*bus.Bus)
		w.over(w.store, w.jobs) // the world's own, under a name that is known
		other := w.another(w.store, w.jobs)
		defer other.Close()
		ctx, stop := context.WithCancel(w.t.Context())
		defer stop()
		for id, rooms := range map[core.InstanceID]*session.Registry{"i-2": w.rooms, "i-3": other} {
			b := bus.NewReceiver(w.buses[id], rooms.Handlers(), func(context.Context, core.InstanceID) error { return nil })
			if err := b.Announce(ctx); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				b.Run(ctx)
			}()
			defer func() {
				stop()
				<-ended
			}()
		}
		fn(w, other)
	})
}

// TestAResultHeardElsewhere comes at once, not when somebody looks.
func TestAResultHeardElsewhere(t *testing.T) {
	peers(t, func(w *world, b *session.Registry) {
		s, link := w.start(func(in *wire.SessionStart) { in.Partials = true })
		job := w.utter(s)
		b.SendPartial(w.t.Context(), "i-2", &wire.JobPartial{ActiveJob: wire.ActiveJob{JobID: string(job), AttemptID: 1}, Rev: 1, TextSrc: "hel"})
		synctest.Wait()
		if m := link.last(t, "partial"); m["text_src"] != "hel" {
			t.Errorf("%v", m)
		}
		w.jobs.mu.Lock()
		spec := w.jobs.placed[job]
		w.jobs.mu.Unlock()
		if err := b.JobEnded(w.t.Context(), ended(job, spec, core.StateDone, "", `{"text_tgt":"x"}`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // and no time passes
		wantEnds(t, link, "0 x")
		if held := w.rooms.Audio().Held(); held != 0 {
			t.Errorf("%d bytes are held for a job that has ended elsewhere", held)
		}
	})
}

// TestASoundThatIsWanted: whoever has it goes on with the job, and whoever has not does nothing.
func TestASoundThatIsWanted(t *testing.T) {
	peers(t, func(w *world, b *session.Registry) {
		s, _ := w.start()
		job := w.utter(s)
		w.jobs.mu.Lock()
		spec := w.jobs.placed[job]
		w.jobs.mu.Unlock()
		wanted := ended(job, spec, core.StateRetrying, core.ReasonNodeFailed, "")
		b.AudioWanted(w.t.Context(), wanted)
		synctest.Wait()
		w.jobs.mu.Lock()
		rearmed := len(w.jobs.rearmed)
		w.jobs.mu.Unlock()
		if rearmed != 1 {
			t.Errorf("%d jobs were gone on with", rearmed)
		}
		w.done(job, "x") // after which nobody has the sound
		b.AudioWanted(w.t.Context(), wanted)
		synctest.Wait()
		w.jobs.mu.Lock()
		defer w.jobs.mu.Unlock()
		if len(w.jobs.rearmed) != 1 {
			t.Errorf("%d jobs were gone on with", len(w.jobs.rearmed))
		}
	})
}

// TestASessionThatMoved: who had it before lets go of it at once.
func TestASessionThatMoved(t *testing.T) {
	peers(t, func(w *world, b *session.Registry) {
		s, link := w.start()
		next := &ear{}
		if _, err := b.Resume(w.t.Context(), session.ResumeParams{Session: s.ID(), Token: link.token(t)}, next); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if code, _ := link.closed(); code != wire.CloseReplaced {
			t.Errorf("the first connection was closed with %d", code)
		}
		if w.rooms.Len() != 0 || b.Len() != 1 {
			t.Errorf("%d sessions here, %d there", w.rooms.Len(), b.Len())
		}
	})
}
