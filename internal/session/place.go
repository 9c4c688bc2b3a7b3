package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// storeBackoff is between two tries of an operation of the store.
var storeBackoff = backoff.Backoff{Min: 50 * time.Millisecond, Max: time.Second}

// place gives the job of an utterance to a node, after the earlier ones of its session that the same nodes could serve. A
// fleet that is full for a moment is waited for; after that the utterance ends without ever having been a job.
func (r *Registry) place(life context.Context, u *utterance) {
	ctx, stop := context.WithCancel(life)
	before := u.beginPlacing(stop)
	defer u.endPlacing()
	var e *wire.Error
	placed := false
	if before == nil || awaitPlaced(ctx, before) {
		placed, e = r.tryPlace(ctx, u)
	}
	fate := u.fate()
	switch {
	case life.Err() != nil:
	case placed && (fate.given || fate.expiring): // meanwhile: who ended it may have found no job
		r.cancel(life, u)
	case placed, fate.over, fate.expiring: // the session goes on elsewhere, or the utterance is being ended
	case fate.given:
		r.concludeCancelled(life, u)
	case e != nil && e.Code.Retryable() && r.isLeaving(): // the instance that has the session next places it
	case e != nil:
		r.conclude(life, u, e, core.Reason(e.Code))
	}
}

// placement is utterances of a session that the same nodes could serve: they are placed in their order.
type placement struct {
	direction core.Direction
	options   *optionSet
	tts       bool
}

// fate is what has become of an utterance while it was placed.
type fate struct{ given, expiring, over bool }

func (u *utterance) fate() fate {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	return fate{given: u.given, expiring: u.expiring, over: u.session.over}
}

// queue gives an utterance its place behind the earlier ones. The caller holds the lock.
func (s *Session) queue(u *utterance) {
	key := placement{u.direction, u.options, u.spec.Options.RequireTTS}
	u.placed = make(chan struct{})
	u.before, s.last[key] = s.last[key], u
}

// beginPlacing notes that the utterance is being given to a node, and how to stop that. It returns the utterance that
// is placed before it, nil when there is none.
func (u *utterance) beginPlacing(stop context.CancelFunc) (before *utterance) {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	u.placing, u.stopPlacing = true, stop
	if u.given || u.expiring || u.session.over {
		stop()
	}
	return u.before
}

func (u *utterance) endPlacing() {
	s := u.session
	s.mu.Lock()
	defer s.mu.Unlock()
	u.stopPlacing()
	u.placing, u.before = false, nil
	close(u.placed)
	if key := (placement{u.direction, u.options, u.spec.Options.RequireTTS}); s.last[key] == u {
		delete(s.last, key)
	}
}

// awaitPlaced waits until an earlier utterance was placed, or has ended. It reports false when the context ended first.
func awaitPlaced(ctx context.Context, u *utterance) bool {
	select {
	case <-u.placed:
		return true
	case <-ctx.Done():
		return false
	}
}

// stopWaiting ends the wait for a node, if there is one. The caller holds the lock.
func (u *utterance) stopWaiting() {
	if u.stopPlacing != nil {
		u.stopPlacing()
	}
}

// giveUp ends an utterance that was committed, once. The caller holds the lock.
func (s *Session) giveUp(u *utterance) {
	if !u.given {
		u.given = true
		u.stopWaiting()
		s.rooms.background(func(ctx context.Context) { s.rooms.cancel(ctx, u) })
	}
}

// cancel ends the job of an utterance. If there is none, either it is being placed, and place looks once more, or it waits
// for its audio to come again and never becomes a job.
func (r *Registry) cancel(ctx context.Context, u *utterance) {
	known := true
	storeBackoff.Retry(ctx, func() error {
		_, _, err := r.jobs.Cancel(ctx, u.job)
		var e *wire.Error
		if errors.As(err, &e) && e.Code == wire.NotFound {
			known = false
			return nil
		}
		return err
	})
	if !known && u.needsAudio() {
		r.concludeCancelled(ctx, u)
	}
}

// needsAudio reports whether the utterance waits for its audio to come again.
func (u *utterance) needsAudio() bool {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	return slices.Contains(u.session.again, u)
}

// concludeCancelled ends an utterance that was cancelled before it was a job.
func (r *Registry) concludeCancelled(ctx context.Context, u *utterance) {
	r.conclude(ctx, u, wire.Errorf(wire.Code(core.ReasonCancelled), "the utterance was cancelled"), core.ReasonCancelled)
}

// giveUp ends an utterance whose time is over, or whose audio is lost, however often the store has to be asked. If it is
// a job, that ends, in this way or as it has ended; else there is none, and none is made.
func (r *Registry) giveUp(ctx context.Context, u *utterance, reason core.Reason) {
	known := false
	if !storeBackoff.Retry(ctx, func() (err error) {
		known, err = r.jobs.Abandon(ctx, u.job, reason)
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
func (r *Registry) tryPlace(ctx context.Context, u *utterance) (placed bool, _ *wire.Error) {
	wait := r.waitOf(u)
	if e := r.saveBefore(ctx, u, wait.Until); e != nil || ctx.Err() != nil {
		return false, e
	}
	known, err := false, error(nil)
	if u.revived {
		known, err = r.jobs.ResumeWithAudio(ctx, u.job)
	}
	if err == nil && !known {
		_, err = r.jobs.DispatchWaiting(ctx, dispatch.Request{Spec: u.spec, Patient: true}, wait)
	}
	if err == nil {
		return true, nil
	}
	var e *wire.Error
	if !errors.As(err, &e) {
		e = wire.Errorf(wire.Internal, "something went wrong here, not with your request")
	}
	return false, e
}

// waitOf is how long an utterance waits for a node.
func (r *Registry) waitOf(u *utterance) dispatch.Wait {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	since := u.since
	if since.IsZero() || u.revived {
		since = u.waits
	}
	return dispatch.Wait{Since: since, Until: since.Add(r.cfg.Wait), Join: since.Add(r.cfg.JoinWait)}
}

// saveBefore saves the session's state until a moment has come. A session that was superseded has nothing to place: its
// utterances are stopped.
func (r *Registry) saveBefore(ctx context.Context, u *utterance, until time.Time) *wire.Error {
	for retry := storeBackoff; ; {
		err := u.session.save(ctx)
		switch {
		case err == nil, errors.Is(err, errSuperseded), ctx.Err() != nil:
			return nil //nolint:nilerr // the caller looks at the context
		case time.Now().Add(retry.Next()).After(until):
			return r.down(err)
		}
		if !retry.Wait(ctx) {
			return nil
		}
	}
}

// refuse ends an utterance that never becomes a job, beside the caller.
func (s *Session) refuse(u *utterance, e *wire.Error, reason core.Reason) {
	s.rooms.background(func(ctx context.Context) { s.rooms.conclude(ctx, u, e, reason) })
}

// conclude writes the terminal message of an utterance that is no job, however often the store has to be asked. Where it was
// cut is saved before that, or whoever has the session next would take its place for that of the next. If it became a job
// after all, whichever message comes first stands.
func (r *Registry) conclude(ctx context.Context, u *utterance, e *wire.Error, reason core.Reason) {
	message, err := sealFailure(&u.spec, u.job, e, reason)
	if err != nil {
		r.log.Error("a message could not be written", "job_id", u.job, "error", err)
		return
	}
	storeBackoff.Retry(ctx, func() error {
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
