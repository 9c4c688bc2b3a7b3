package session

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/pause"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

// place gives the job of an utterance to a node. A fleet that is full for a moment is waited for; after that the
// utterance ends without ever having been a job.
func (r *Rooms) place(ctx context.Context, u *utterance) {
	s := u.session
	until := time.Now().Add(r.cfg.Wait)
	for wait := firstPause; ; wait = min(2*wait, mostPause) {
		e := r.tryPlace(ctx, u)
		if e == nil || ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		given := u.given
		s.mu.Unlock()
		if given {
			r.conclude(ctx, u, wire.Errorf(wire.Code(core.ReasonCancelled), "the utterance was cancelled"), core.ReasonCancelled)
			return
		}
		if !e.Code.Traits().Retryable || time.Now().Add(wait).After(until) {
			r.conclude(ctx, u, e, core.Reason(e.Code))
			return
		}
		if !pause.About(ctx, wait, 0.5) {
			return
		}
	}
}

// tryPlace saves where the utterance was cut, so that it is never cut again, and dispatches it.
func (r *Rooms) tryPlace(ctx context.Context, u *utterance) *wire.Error {
	if err := u.session.save(ctx); err != nil {
		return r.down(err)
	}
	known, err := false, error(nil)
	if u.revived {
		known, err = r.jobs.Rearm(ctx, u.job)
	}
	if err == nil && !known {
		_, err = r.jobs.Dispatch(ctx, dispatch.Request{Spec: u.spec})
	}
	if err == nil {
		return nil
	}
	var e *wire.Error
	if !errors.As(err, &e) {
		e = wire.Errorf(wire.Internal, "something went wrong here, not with your request")
	}
	return e
}

// refuse ends an utterance that never becomes a job, beside the caller.
func (s *Session) refuse(u *utterance, e *wire.Error, reason core.Reason) {
	s.rooms.background(func(ctx context.Context) { s.rooms.conclude(ctx, u, e, reason) })
}

// conclude writes the terminal message of an utterance that is no job, however often the store has to be asked. If it
// became one after all, whichever message comes first stands.
func (r *Rooms) conclude(ctx context.Context, u *utterance, e *wire.Error, reason core.Reason) {
	body, err := failure(&u.spec, u.job, e, reason)
	if err != nil {
		r.log.Error("a message could not be written", "job_id", u.job, "error", err)
		return
	}
	pause.Persist(ctx, firstPause, mostPause, func() error {
		err := r.append(ctx, u.spec.Session, u.turn, body)
		if err != nil {
			r.log.Warn("the store did not answer", "operation", "outbox", "error", err)
		}
		return err
	})
}

// Cancel gives up an utterance: the open one, or one whose terminal message has not come.
func (s *Session) Cancel(id string, job core.JobID) *wire.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch()
	if u := s.open; u != nil && (id == "" && job == "" || id != "" && u.id == id) {
		s.rooms.Sounds.give(u.bytes)
		s.open = nil
		if u.id != "" {
			s.past = append(s.past, u.id)
		}
		return nil
	}
	for _, u := range s.turn {
		if u.job == job && job != "" || u.id == id && id != "" {
			u.given = true
			s.rooms.background(func(ctx context.Context) {
				_, _, _ = s.rooms.jobs.Cancel(ctx, u.job) // unknown: it waits for a node, and is told
			})
			return nil
		}
	}
	return wire.Errorf(wire.NotFound, "there is no such utterance, or it has ended")
}
