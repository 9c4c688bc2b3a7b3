package session

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Session is one session on this instance. Its mutex guards everything below it, also in its parts, and the session's
// utterances. It is never held during a call of the store, the bus or Jobs. A connection takes what it is sent without
// blocking, so messages are sent under the mutex, in order.
type Session struct {
	registry  *Registry
	ref       core.SessionRef
	tokenHash string          // of the resume token
	ownership store.Ownership // by which this instance owns the session
	started   time.Time
	known     time.Time // the latest revocation that was known where it started

	mu       run.Mutex
	settings settings
	options  *optionSet      // of utterances that begin now
	conn     Conn            // nil while no client is connected
	caller   *auth.Principal // of the last connection

	intake   intake
	outbox   outbox
	speech   speechDelivery
	saver    stateSaver
	monitor  monitor
	activity activity

	turns        int64 // utterances that were committed
	lastPlaced   lastPlacement
	requests     requestHistory
	unfinished   map[core.JobID]*utterance   // utterances that a result or speech may still follow
	lastEnqueued map[placementKey]*utterance // the last utterance that waits to be placed
	controlLimit *rate.Limiter               // of messages that are not audio
	end          endState
	finished     bool // the session has left this instance: it has ended, expired or moved
}

// endState is the state of a session that its client has asked to end, or that was terminated.
type endState struct {
	requested      bool
	dropped        bool        // it was terminated: its state is not saved any more
	speechTimer    *time.Timer // ends the wait for speech; nil: it is not awaited
	speechTimedOut bool
}

// newSession makes a session that is not in the directory yet.
func newSession(r *Registry, ref core.SessionRef) *Session {
	now := time.Now()
	s := &Session{
		registry: r, ref: ref, ownership: store.Ownership{Owner: r.cfg.Instance}, options: &optionSet{},
		mu:         run.NewMutex("session"),
		requests:   requestHistory{utterances: make(map[core.RequestID]*utterance)},
		unfinished: make(map[core.JobID]*utterance), lastEnqueued: make(map[placementKey]*utterance),
		controlLimit: rate.NewLimiter(controlRate, controlBurst),
	}
	s.intake.init(s, now)
	s.outbox = outbox{session: s, resultQueue: makeResultQueue()}
	s.speech = speechDelivery{session: s}
	s.saver.init(s, now)
	s.monitor = monitor{session: s, lastReceived: now}
	return s
}

// warn sends a warning to the client.
func (s *Session) warn(code wire.WarningCode, about core.JobID, detail string) {
	if s.conn != nil {
		s.conn.Send(wire.Warning{Code: code, Detail: detail, JobID: string(about)})
	}
}

// connection returns the session's connection; nil while no client is connected.
func (s *Session) connection() Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// lastMessage is the last durable message, as far as is known.
func (s *Session) lastMessage() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outbox.last
}

// closeReplaced closes the connection because the session continues over another one.
func (s *Session) closeReplaced() {
	if s.conn != nil {
		s.conn.Close(wire.CloseReplaced, wire.FieldErrorf(wire.StaleEpoch, "session_id", "the session continues over another connection"))
	}
}

// attach makes the connection of a caller at an address the session's, and closes the one that it replaces.
func (s *Session) attach(conn Conn, caller *auth.Principal, remote string) {
	if s.conn != nil {
		s.speech.connectionLost(s.conn)
	}
	s.closeReplaced()
	s.conn, s.caller, s.activity.remote = conn, caller, remote
	now := time.Now()
	s.intake.connectionChanged(now)
	for _, u := range s.outbox.pending {
		u.waitingSince = now
	}
	s.monitor.touch(now)
}

// detach records that a connection is lost. The session can be resumed, and an open utterance stays open, because the rest of
// it may be on its way.
func (s *Session) detach(conn Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.speech.connectionLost(conn)
	if s.conn != conn {
		return // it was replaced
	}
	s.conn = nil
	s.intake.connectionLost()
	if !s.finished {
		s.monitor.touch(time.Now())
	}
}

// supersede ends the session here because another instance has taken it over. Its jobs continue, and its messages are in its
// outbox.
func (s *Session) supersede() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return
	}
	s.registry.metrics.Events.WithLabelValues(telemetry.SessionSuperseded).Inc()
	s.closeReplaced()
	s.finish()
}

// stop ends the session here because the instance stops.
func (s *Session) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.finished {
		s.finish()
	}
}

// finish removes the session from this instance. Messages that its jobs still make go to its outbox.
func (s *Session) finish() {
	s.finished = true
	if s.end.speechTimer != nil {
		s.end.speechTimer.Stop()
	}
	s.monitor.stop()
	s.intake.stop()
	for _, u := range s.outbox.pending {
		u.placement.cancel() // the instance on which the session continues places them
	}
	for _, u := range s.unfinished {
		u.speech.lose(s.registry.audio)
		s.dropUtterance(u)
	}
	s.registry.remove(s)
}

// hasEnded reports whether the end of the session was sent to the client.
func (s *Session) hasEnded() bool { return s.outbox.totals.SessionID != "" }

// endIfComplete ends a session that was asked to end when every utterance has its terminal message and its speech.
func (s *Session) endIfComplete() {
	if !s.end.requested || s.finished || s.conn == nil || s.outbox.sent < s.turns {
		return
	}
	if len(s.unfinished) > 0 && !s.end.speechTimedOut {
		s.awaitSpeech()
		return
	}
	for _, u := range s.unfinished {
		s.speech.lose(u, "did not arrive before the end of the session")
		s.dropUtterance(u) // a resume that repeats the end does not warn again
	}
	if !s.hasEnded() {
		s.registry.metrics.Events.WithLabelValues(telemetry.SessionEnded).Inc()
		s.registry.endCount(s.ref)
	}
	s.outbox.totals.SessionID, s.outbox.totals.Utterances = string(s.ref.Name), s.turns
	s.saver.markChanged()
	s.conn.SendFinal(s.outbox.totals)
	// The message may be lost with the connection: a client that resumes the session receives it again until the session expires.
	s.conn = nil
	s.monitor.touch(time.Now())
}

// awaitSpeech waits for the speech of a session that was asked to end, for a limited time.
func (s *Session) awaitSpeech() {
	if s.end.speechTimer != nil {
		return
	}
	s.end.speechTimer = time.AfterFunc(endSpeechTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end.speechTimedOut = true
		s.endIfComplete()
	})
}

const (
	// checkJitter is the jitter of the times between checks of a session: many sessions may have arrived at once, from an
	// instance that is gone.
	checkJitter = 0.2
	// checkInterval is how often the outbox is checked while utterances wait, in case the news of their end was lost.
	checkInterval = 3 * time.Second
)

// monitor checks a session when something may have gone wrong unnoticed: nothing was received for too long, the saved state
// expires, or an utterance waits for its result. The session's mutex guards it.
type monitor struct {
	session      *Session
	lastReceived time.Time   // when the last message was received, or the connection changed
	timer        *time.Timer // runs the next check
	nextCheck    time.Time
}

// touch records that the connection has changed, and schedules the next check.
func (m *monitor) touch(now time.Time) {
	m.lastReceived = now
	m.schedule()
}

// stop ends the checks.
func (m *monitor) stop() {
	if m.timer != nil {
		m.timer.Stop()
	}
}

// timeout is how long nothing may be received before the session ends.
func (m *monitor) timeout() time.Duration {
	if m.session.conn == nil {
		return m.session.registry.cfg.Resume
	}
	return m.session.registry.cfg.Idle
}

// expect schedules a check for an utterance that waits, unless one is near.
func (m *monitor) expect() {
	if time.Until(m.nextCheck) > 2*checkInterval {
		m.schedule()
	}
}

// schedule schedules the next check: when nothing was received for too long, when the saved state is to be renewed, when an
// utterance or the speech of a result times out, and every checkInterval while utterances wait.
func (m *monitor) schedule() {
	s, cfg := m.session, &m.session.registry.cfg
	next := min(m.timeout()-time.Since(m.lastReceived), run.Jitter(cfg.renewInterval(), checkJitter))
	if len(s.outbox.pending) > 0 {
		next = min(next, run.Jitter(checkInterval, checkJitter))
	}
	for _, u := range s.outbox.pending {
		if s.conn != nil && !u.result.stored && !u.placement.expired {
			next = min(next, cfg.resultTimeout()-time.Since(u.waitingSince))
		}
	}
	for _, u := range s.unfinished {
		if u.result.sent {
			next = min(next, speechTimeout-time.Since(u.speech.progressAt))
		}
	}
	next = max(next, 0)
	m.nextCheck = time.Now().Add(next)
	if m.timer == nil {
		m.timer = time.AfterFunc(next, m.check)
	} else {
		m.timer.Reset(next)
	}
}

// check ends the session if nothing was received for too long. Otherwise it renews the saved state, checks the outbox, ends
// utterances and speech that are overdue, and schedules the next check.
func (m *monitor) check() {
	s := m.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return
	}
	if timeout := m.timeout(); time.Since(m.lastReceived) >= timeout {
		if !s.end.requested {
			s.registry.metrics.Events.WithLabelValues(telemetry.SessionAbandoned).Inc()
		}
		if !s.hasEnded() {
			s.registry.endCount(s.ref)
		}
		if s.conn != nil {
			s.conn.Close(wire.CloseIdle, wire.Errorf(wire.DeadlineExceeded,
				"nothing was received for %s: send keepalive, or end the session", timeout))
		}
		s.finish()
		return
	}
	s.saver.renew()
	s.outbox.check()
	m.checkPending()
	s.speech.loseOverdue()
	m.schedule()
}

// checkPending ends pending utterances that have timed out. For others that have waited for a while it resumes the job: the
// message that asks for their audio may have been lost.
func (m *monitor) checkPending() {
	s := m.session
	for _, u := range s.outbox.pending {
		waited := time.Since(u.waitingSince)
		switch {
		case u.result.stored || waited < checkInterval:
		case s.conn != nil && waited >= s.registry.cfg.resultTimeout():
			reason := core.ReasonDeadline
			if s.intake.isReplaying(u) {
				reason = core.ReasonAudioLost
			}
			s.expireUtterance(u, reason)
		case !u.placement.active:
			// the next check retries it
			s.registry.background.Go(func(ctx context.Context) { _, _ = s.registry.jobs.ResumeWithAudio(ctx, u.job) })
		}
	}
}
