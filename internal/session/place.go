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
	u.placed(true)
	defer u.placed(false)
	until := time.Now().Add(r.cfg.Wait)
	for wait := firstPause; ; wait = min(2*wait, mostPause) {
		if u.isExpiring() {
			return // it is being ended
		}
		if u.isGivenUp() {
			r.conclude(ctx, u, wire.Errorf(wire.Code(core.ReasonCancelled), "the utterance was cancelled"), core.ReasonCancelled)
			return
		}
		e := r.tryPlace(ctx, u)
		switch {
		case ctx.Err() != nil:
			return
		case e == nil:
			if u.isGivenUp() { // while it was placed: whoever gave it up may have found no job
				r.cancel(ctx, u)
			}
			return
		case e.Code.Traits().Retryable && r.isLeaving():
			return // this instance grants nothing any more: whoever has the session next places it
		case !e.Code.Traits().Retryable || time.Now().Add(wait).After(until):
			r.conclude(ctx, u, e, core.Reason(e.Code))
			return
		}
		if !pause.About(ctx, wait, 0.5) {
			return
		}
	}
}

// waited is how long ago the utterance ended, as far as it is known here.
func (u *utterance) waited() time.Duration {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	if u.since.IsZero() {
		return time.Since(u.waits)
	}
	return time.Since(u.since)
}

// placed notes whether somebody is giving the utterance to a node.
func (u *utterance) placed(placing bool) {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	u.placing = placing
}

// isGivenUp reports whether the speaker does not want the utterance any more.
func (u *utterance) isGivenUp() bool {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	return u.given
}

// isExpiring reports whether the time of the utterance is over.
func (u *utterance) isExpiring() bool {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	return u.expiring
}

// giveUp ends an utterance that was committed, once. The caller holds the lock.
func (s *Session) giveUp(u *utterance) {
	if !u.given {
		u.given = true
		s.rooms.background(func(ctx context.Context) { s.rooms.cancel(ctx, u) })
	}
}

// cancel ends the job of an utterance. If there is none it is being placed, and whoever does that looks once more.
func (r *Rooms) cancel(ctx context.Context, u *utterance) {
	pause.Persist(ctx, firstPause, mostPause, func() error {
		_, _, err := r.jobs.Cancel(ctx, u.job)
		var e *wire.Error
		if errors.As(err, &e) && e.Code == wire.NotFound {
			return nil
		}
		return err
	})
}

// giveUp ends an utterance whose time is over, or whose audio is lost, however often the store has to be asked. If it is
// a job, that ends, in this way or as it has ended; else there is none, and none is made.
func (r *Rooms) giveUp(ctx context.Context, u *utterance, reason core.Reason) {
	known := false
	if !pause.Persist(ctx, firstPause, mostPause, func() (err error) {
		known, err = r.jobs.GiveUp(ctx, u.job, reason)
		return err
	}) {
		return
	}
	if !known {
		r.conclude(ctx, u, wire.Errorf(codeOf(reason), "this utterance has no result: %s", reason), reason)
	}
}

// tryPlace saves where the utterance was cut, so that it is never cut again, and dispatches it. Of an utterance that is
// another instance's by now, that one takes care.
func (r *Rooms) tryPlace(ctx context.Context, u *utterance) *wire.Error {
	err := u.session.save(ctx)
	if errors.Is(err, errSuperseded) {
		return nil
	}
	if err != nil {
		return r.down(err)
	}
	known := false
	if u.revived {
		known, err = r.jobs.Rearm(ctx, u.job)
	}
	if err == nil && !known {
		spec := u.spec
		spec.Utterance.WaitMS = u.waited().Milliseconds()
		_, err = r.jobs.Dispatch(ctx, dispatch.Request{Spec: spec, Patient: true})
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

// conclude writes the terminal message of an utterance that is no job, however often the store has to be asked. Where it was
// cut is saved before that, or whoever has the session next would take its place for that of the next. If it became a job
// after all, whichever message comes first stands.
func (r *Rooms) conclude(ctx context.Context, u *utterance, e *wire.Error, reason core.Reason) {
	message, err := sealFailure(&u.spec, u.job, e, reason)
	if err != nil {
		r.log.Error("a message could not be written", "job_id", u.job, "error", err)
		return
	}
	pause.Persist(ctx, firstPause, mostPause, func() error {
		err := u.session.save(ctx)
		if errors.Is(err, errSuperseded) {
			return nil
		}
		if err == nil {
			err = r.append(ctx, u.session.claim, &u.spec, message)
		}
		if err != nil {
			r.log.Warn("the store did not answer", "operation", "outbox", "error", err)
		}
		return err
	})
}
