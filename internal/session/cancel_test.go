package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

// slowDesk lets Dispatch wait.
type slowDesk struct {
	*desk
	gate chan struct{}
}

func (d *slowDesk) DispatchWaiting(ctx context.Context, r dispatch.Request, w dispatch.Wait) (dispatch.Placement, error) {
	<-d.gate
	return d.desk.DispatchWaiting(ctx, r, w)
}

// TestCancelWhileItIsBeingPlaced: cancel comes while the job is being placed.
func TestCancelWhileItIsBeingPlaced(t *testing.T) {
	play(t, func(w *world) {
		slow := &slowDesk{desk: w.jobs, gate: make(chan struct{})}
		w.over(w.store, slow)
		s, link := w.start()
		w.say(s, tone(300))
		if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		job := link.last(t, "utterance_committed")["job_id"].(string)
		if e := s.Cancel("", core.JobID(job)); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		close(slow.gate)
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		wantEnds(t, link, "0 CANCELLED")
	})
}

// TestARequestOfAnotherSession: the request_id of another session of the tenant.
func TestARequestOfAnotherSession(t *testing.T) {
	play(t, func(w *world) {
		a, _ := w.start(func(in *wire.SessionStart) { in.Partials = true })
		b, linkB := w.start(func(in *wire.SessionStart) { in.Partials = true })
		w.request(a, tone(300))
		job := w.jobs.jobs()[0]
		w.jobs.refuse = wire.Errorf(wire.RequestMismatch, "as dispatch says of a request_id with other content")
		w.request(b, tone(500))
		wantEnds(t, linkB, "0 REQUEST_MISMATCH")
		if clip := w.rooms.Audio().Clip(job); clip == nil {
			t.Error("the sound of the first session's job, which still runs, is gone")
		}
	})
}

// TestPartialsOfAnotherSession: before the mismatch is known, or with partials.
func TestPartialsOfAnotherSession(t *testing.T) {
	play(t, func(w *world) {
		slow := &slowDesk{desk: w.jobs, gate: make(chan struct{})}
		w.over(w.store, slow)
		a, linkA := w.start(func(in *wire.SessionStart) { in.Partials = true })
		b, linkB := w.start(func(in *wire.SessionStart) { in.Partials = true })
		w.request(a, tone(300))
		job := linkA.last(t, "utterance_committed")["job_id"].(string)
		slow.gate <- struct{}{}
		synctest.Wait()
		w.request(b, tone(500)) // is being placed
		w.rooms.DeliverPartial(&wire.JobPartial{ActiveJob: wire.ActiveJob{JobID: job, AttemptID: 1}, Rev: 1, TextSrc: "a secret"})
		if got := linkB.heard("partial"); len(got) != 0 {
			t.Errorf("the second session hears what was said in the first: %v", got)
		}
		if clip := w.rooms.Audio().Clip(core.JobID(job)); clip == nil || len(clip.Data) != len(tone(300)) {
			t.Errorf("a retry of the first session's job would bring the second session's sound")
		}
		close(slow.gate)
		synctest.Wait()
	})
}

// request says something under a request id that others use too.
func (w *world) request(s *session.Connection, pcm []byte) {
	w.t.Helper()
	if e := s.Begin("", "", "r1"); e != nil {
		w.t.Fatal(e)
	}
	w.say(s, pcm)
	if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
		w.t.Fatal(e)
	}
	synctest.Wait()
}
