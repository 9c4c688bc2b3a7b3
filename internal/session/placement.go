package session

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/waiting"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/internal/tracing"
	"github.com/lingua-scheduler/lingua/wire"
)

// storeBackoff is between two tries of an operation of the store.
var storeBackoff = run.Backoff{Min: 50 * time.Millisecond, Max: time.Second}

// placement is the state of placing an utterance's job on a node.
type placement struct {
	previous  *utterance         // the utterance that is placed before it; nil: none
	done      chan struct{}      // closed when it was placed, or was not
	stop      context.CancelFunc // ends placing it; nil before that begins
	active    bool               // it is being placed
	cancelled bool               // the client no longer waits for the utterance
	expired   bool               // the utterance is being ended without a result
}

// cancel stops placing the utterance, if it is being placed.
func (p *placement) cancel() {
	if p.stop != nil {
		p.stop()
	}
}

// placementKey identifies utterances of a session that the same nodes could serve: they are placed in their order.
type placementKey struct {
	direction core.Direction
	options   *optionSet
	tts       bool
}

func (u *utterance) placementKey() placementKey {
	return placementKey{u.direction, u.options, u.spec.Options.RequireTTS}
}

// enqueue queues an utterance behind the earlier ones that the same nodes could serve. The caller holds the lock.
func (s *Session) enqueue(u *utterance) {
	key := u.placementKey()
	u.placement.done = make(chan struct{})
	u.placement.previous, s.lastEnqueued[key] = s.lastEnqueued[key], u
}

// startPlacing places an utterance that was enqueued, in the background.
func (s *Session) startPlacing(u *utterance) {
	s.registry.background.Go(func(ctx context.Context) { s.registry.placer.place(ctx, u) })
}

// cancelUtterance ends a committed utterance at its client's request, once. The caller holds the lock.
func (s *Session) cancelUtterance(u *utterance) {
	if !u.placement.cancelled {
		u.placement.cancelled = true
		u.placement.cancel()
		s.registry.background.Go(func(ctx context.Context) { s.registry.placer.cancelJob(ctx, u) })
	}
}

// expireUtterance ends an utterance without a result, once. If it has a job, the job decides. The caller holds the lock.
func (s *Session) expireUtterance(u *utterance, reason core.Reason) {
	if u.placement.expired {
		return
	}
	u.placement.expired = true
	u.placement.cancel()
	s.registry.background.Go(func(ctx context.Context) { s.registry.placer.abandon(ctx, u, reason) })
}

// refuse ends an utterance that never becomes a job, in the background.
func (s *Session) refuse(u *utterance, e *wire.Error) {
	s.registry.background.Go(func(ctx context.Context) { s.registry.placer.fail(ctx, u, e, core.ReasonNone) })
}

// beginPlacing records that the utterance is being placed, and how to stop that. It returns the utterance that is placed
// before it; nil when there is none.
func (u *utterance) beginPlacing(stop context.CancelFunc) (previous *utterance) {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	p := &u.placement
	p.active, p.stop = true, stop
	if p.cancelled || p.expired || u.session.finished {
		stop()
	}
	return p.previous
}

// endPlacing lets the next utterance be placed.
func (u *utterance) endPlacing() {
	s := u.session
	s.mu.Lock()
	defer s.mu.Unlock()
	u.placement.stop()
	u.placement.active, u.placement.previous = false, nil
	close(u.placement.done)
	if key := u.placementKey(); s.lastEnqueued[key] == u {
		delete(s.lastEnqueued, key)
	}
}

// awaitPlaced waits until the utterance was placed, or was not. It reports false when the context ended first.
func (u *utterance) awaitPlaced(ctx context.Context) bool {
	select {
	case <-u.placement.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// placementOutcome is what happened to an utterance while it was placed.
type placementOutcome struct{ cancelled, expired, finished bool }

func (u *utterance) placementOutcome() placementOutcome {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	return placementOutcome{cancelled: u.placement.cancelled, expired: u.placement.expired, finished: u.session.finished}
}

// isReplaying reports whether the utterance waits for its audio to be sent again.
func (u *utterance) isReplaying() bool {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	return u.session.intake.isReplaying(u)
}

// lastPlacement is where the last utterance of a session runs, or ran.
type lastPlacement struct {
	Turn int64
	Node core.NodeID
	Pool core.PoolID `json:",omitempty"` // in which the next utterance is tried first; empty: none
	At   time.Time
}

// recordPlacement records the node of an utterance and, if it is known, its pool, unless a later one was placed before. The caller holds
// the lock.
func (s *Session) recordPlacement(turn int64, node core.NodeID, pool core.PoolID) {
	last := s.lastPlaced
	if turn < last.Turn || turn == last.Turn && node == last.Node {
		return
	}
	s.lastPlaced = lastPlacement{Turn: turn, Node: node, Pool: cmp.Or(pool, last.Pool), At: time.Now()}
	if s.registry.cfg.Spread || pool != "" && pool != last.Pool {
		s.saver.markChanged()
	}
}

// previousJob returns where the utterance before runs, or ran.
func (u *utterance) previousJob() dispatch.PreviousJob {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	last := &u.session.lastPlaced
	return dispatch.PreviousJob{Node: last.Node, Pool: last.Pool, At: last.At}
}

// dispatchWait is how long the utterance waits for a node.
func (u *utterance) dispatchWait(cfg *Config) *dispatch.Wait {
	u.session.mu.Lock()
	defer u.session.mu.Unlock()
	since := u.committedAt
	if since.IsZero() || u.restored {
		since = u.waitingSince
	}
	wait := cfg.Wait
	if ms := u.spec.Options.MaxWaitMS; ms != nil {
		wait = time.Duration(*ms) * time.Millisecond
	}
	return &dispatch.Wait{Since: since, Until: since.Add(wait), Join: since.Add(min(cfg.JoinWait, wait))}
}

// waitingInterval is how often a session is told that one of its utterances waits.
const waitingInterval = time.Second

// announceWait tells the client that the utterance waits for a slot, and for how much longer, unless it was told of another one a moment
// ago.
func (u *utterance) announceWait(estimate time.Duration) {
	s := u.session
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.conn == nil || u.placement.cancelled || u.placement.expired || now.Sub(s.activity.waitAnnounced) < waitingInterval {
		return
	}
	s.activity.waitAnnounced = now
	m := wire.SessionWaiting{JobID: string(u.job), UtteranceIndex: u.turn - 1}
	if estimate != waiting.EstimateUnknown {
		ms := estimate.Milliseconds()
		m.EstimateMS = &ms
	}
	s.registry.metrics.Messages.WithLabelValues(telemetry.MessageWaiting).Inc()
	s.conn.Send(m)
}

// placer places utterances on nodes, and ends utterances that cannot be placed or are no longer wanted.
type placer struct {
	directory  *Directory
	jobs       Jobs
	isDraining func() bool // whether clients are asked to continue on another instance
}

// place gives the job of an utterance to a node, after the earlier utterances of its session that the same nodes could serve.
// If the fleet is full it waits; after that the utterance ends without ever having been a job.
func (p *placer) place(background context.Context, u *utterance) {
	ctx, stop := context.WithCancel(background)
	previous := u.beginPlacing(stop)
	defer u.endPlacing()
	steps := p.directory.cfg.Tracer.Of(u.job).Steps()
	var e *wire.Error
	placed := false
	if previous == nil || u.awaitPrevious(ctx, previous, steps) {
		afterPrevious := time.Time{}
		if previous != nil {
			afterPrevious = time.Now()
		}
		placed, e = p.dispatch(ctx, u, afterPrevious, steps)
	}
	outcome := u.placementOutcome()
	switch {
	case background.Err() != nil:
	case placed && (outcome.cancelled || outcome.expired): // during the dispatch: cancelJob or abandon may have found no job
		p.cancelJob(background, u)
	case placed, outcome.finished, outcome.expired: // the session continues elsewhere, or the utterance is being ended
	case outcome.cancelled:
		p.failCancelled(background, u)
		p.exportSteps(u, steps)
	case e != nil && e.Code.Retryable() && p.isDraining(): // the next instance of the session places it
	case e != nil:
		p.fail(background, u, e, core.Reason(e.Code))
		p.exportSteps(u, steps)
	}
}

// dispatch saves the bounds of the utterance, so that its audio is never divided otherwise, and dispatches its job. If the
// session has moved to another instance, that instance dispatches it. If an earlier utterance had to be placed first, that was done at
// afterPrevious.
func (p *placer) dispatch(ctx context.Context, u *utterance, afterPrevious time.Time, steps *tracing.Steps) (placed bool, _ *wire.Error) {
	wait := u.dispatchWait(&p.directory.cfg)
	save := steps.Begin(tracing.SpanSaveSession)
	e := p.saveBefore(ctx, u, wait.Until)
	save.End(codeOfError(e))
	if e != nil || ctx.Err() != nil {
		return false, e
	}
	known, err := false, error(nil)
	if u.restored {
		known, err = p.jobs.ResumeWithAudio(ctx, u.job)
	}
	if err == nil && !known {
		var placed dispatch.Placement
		wait.Announce = u.announceWait
		placed, err = p.jobs.Dispatch(ctx, dispatch.Request{
			Spec: u.spec, UntilPlaced: true, Wait: wait, Previous: u.previousJob(), Traceparent: u.traceparent, Steps: steps,
		})
		if err == nil {
			u.session.mu.Lock()
			u.session.recordPlacement(u.turn, placed.Node, placed.Pool)
			u.session.mu.Unlock()
			u.observePlaced(afterPrevious, placed.Waited)
		}
	}
	if err == nil {
		return true, nil
	}
	if e = nil; !errors.As(err, &e) {
		e = wire.Errorf(wire.Internal, "something went wrong here, not with your request")
	}
	return false, e
}

// saveBefore saves the session's state, retrying until a deadline. A superseded session has nothing to place: its utterances
// are stopped.
func (p *placer) saveBefore(ctx context.Context, u *utterance, deadline time.Time) *wire.Error {
	for retry := storeBackoff; ; {
		err := u.session.saver.save(ctx)
		switch {
		case err == nil, errors.Is(err, errSuperseded), ctx.Err() != nil:
			return nil //nolint:nilerr // the caller checks the context
		case time.Now().Add(retry.Next()).After(deadline):
			return p.directory.storeDown(err)
		}
		if !retry.Wait(ctx) {
			return nil
		}
	}
}

// cancelJob cancels the job of an utterance. If there is no job, either the utterance is being placed, and place checks once
// more, or it waits for its audio to be sent again and never becomes a job.
func (p *placer) cancelJob(ctx context.Context, u *utterance) {
	known := true
	storeBackoff.Retry(ctx, func() error {
		_, _, err := p.jobs.Cancel(ctx, u.job)
		var e *wire.Error
		if errors.As(err, &e) && e.Code == wire.NotFound {
			known = false
			return nil
		}
		return err
	})
	if !known && u.isReplaying() {
		p.failCancelled(ctx, u)
	}
}

// abandon ends an utterance that has timed out, or whose audio is lost, retrying until the store answers. If the utterance has
// a job, the job ends, for this reason or as it has ended; otherwise none is made.
func (p *placer) abandon(ctx context.Context, u *utterance, reason core.Reason) {
	known := false
	if !storeBackoff.Retry(ctx, func() (err error) {
		known, err = p.jobs.Abandon(ctx, u.job, reason)
		return err
	}) {
		return
	}
	if !known {
		p.fail(ctx, u, wire.Errorf(codeOf(reason), "this utterance has no result: %s", reason), reason)
	}
}

// failCancelled ends an utterance that was cancelled before it was a job.
func (p *placer) failCancelled(ctx context.Context, u *utterance) {
	p.fail(ctx, u, wire.Errorf(wire.Cancelled, "the utterance was cancelled"), core.ReasonCancelled)
}

// fail appends the terminal message of an utterance that is no job, retrying until the store answers. The utterance's bounds
// are saved before that; otherwise the next instance of the session would give its turn to the next utterance. If it became
// a job after all, the first of the two messages counts.
func (p *placer) fail(ctx context.Context, u *utterance, e *wire.Error, reason core.Reason) {
	d := p.directory
	message, err := failureMessage(&u.spec, u.job, e, reason)
	if err != nil {
		d.log.Error("a message could not be written", "job_id", u.job, "error", err)
		return
	}
	trace := d.cfg.Tracer.Of(u.job)
	if trace.Sampled() {
		message.Span = trace.Wait().String()
	}
	if p.appendTerminal(ctx, u, message) && trace.Sampled() {
		trace.Refused(&u.spec, u.dispatchWait(&d.cfg).Since, time.Now(), string(e.Code))
	}
}

// appendTerminal saves the session's state and appends the terminal message of an utterance, retrying until the store answers. It reports
// whether the message is the one that counts.
func (p *placer) appendTerminal(ctx context.Context, u *utterance, message *terminalMessage) (stored bool) {
	d := p.directory
	storeBackoff.Retry(ctx, func() error {
		err := u.session.saver.save(ctx)
		if errors.Is(err, errSuperseded) {
			return nil
		}
		if err == nil {
			stored, err = d.append(ctx, u.session.ownership, &u.spec, message, time.Time{})
		}
		if err != nil {
			d.log.Warn("the store did not answer", "operation", "outbox", "error", err)
		}
		return err
	})
	return stored
}
