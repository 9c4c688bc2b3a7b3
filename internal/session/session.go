package session

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Session is one conversation. Its lock is never held while the store or dispatch is asked; a link takes what it is
// sent without making anybody wait, so messages are sent under the lock, in their order.
type Session struct {
	rooms *Registry
	ref   core.SessionRef
	hash  string          // of the resume token
	claim store.Ownership // under which this instance has it

	saving chan struct{} // holds one while the state is saved; taken before mu, never after it

	mu       sync.Mutex
	set      settings
	options  *optionSet // of utterances that begin now
	link     Conn       // nil while nobody listens
	heard    time.Time
	pause    *time.Timer // ends the open utterance when no audio comes
	probe    string      // the ping that tells a pause from a stall; empty: none is under way
	parting  *time.Timer // ends the wait for speech when the session was asked to end
	noise    noiseFloor
	begun    *rate.Limiter // of utterances
	control  *rate.Limiter // of messages that are not audio
	watch    *time.Timer   // nobody has said anything, or come back, for too long; or the state is to be renewed
	due      time.Time     // when watch goes off
	pace     pace
	counted  int64        // audio frames
	acked    int64        // the last that was acknowledged
	cut      int64        // the last frame of which it was decided where it belongs
	again    []*utterance // whose sound is to come once more, in its order
	open     *utterance
	turns    int64 // utterances that were committed
	turn     map[int64]*utterance
	requests map[core.RequestID]*utterance // that were committed, the last few
	spoken   map[core.JobID]*utterance     // of which something may still come
	last     map[placement]*utterance      // that waits to be placed
	asked    []core.RequestID              // the same in their order
	closed   []closedUtterance             // the last few that have ended
	voices   []feeding                     // speech that links are taking

	version int64     // of its state
	stored  int64     // the version that was saved
	renewed time.Time // when that was
	dirty   bool      // a save is about to be made

	sent       int64               // the last durable message that was sent
	known      int64               // the last there is
	confirmed  int64               // the last that the client says it has
	tallied    int64               // the last that is in the totals, or was gone before it could be
	fresh      map[int64]*envelope // durable messages that passed through here and were not sent yet
	freshBytes int
	reading    bool

	totals wire.SessionEnded
	ending bool
	parts  bool // speech that was promised is waited for
	hasty  bool // and not any more
	over   bool
}

func (r *Registry) make(ref core.SessionRef) *Session {
	now := time.Now()
	s := &Session{
		rooms: r, ref: ref, claim: store.Ownership{Owner: r.cfg.Instance}, heard: now, renewed: now, pace: pace{last: now},
		saving: make(chan struct{}, 1), turn: make(map[int64]*utterance), options: &optionSet{},
		requests: make(map[core.RequestID]*utterance), spoken: make(map[core.JobID]*utterance), last: make(map[placement]*utterance), fresh: make(map[int64]*envelope),
		begun: rate.NewLimiter(utteranceRate, r.cfg.MaxUnanswered), control: rate.NewLimiter(controlRate, controlBurst),
	}
	s.pause = time.AfterFunc(time.Hour, s.paused)
	s.pause.Stop()
	return s
}

// enter puts a session into the table, unless there is one of its name.
func (r *Registry) enter(s *Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.sessions[s.ref.SessionKey] != nil {
		return false
	}
	r.sessions[s.ref.SessionKey] = s
	return true
}

func (r *Registry) leave(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[s.ref.SessionKey] == s {
		delete(r.sessions, s.ref.SessionKey)
	}
}

// down is the answer when the store does not answer.
func (r *Registry) down(err error) *wire.Error {
	r.log.Warn("the store did not answer", "operation", "session", "error", err)
	return wire.Errorf(wire.SchedulerDependencyDown, "the shared store does not answer: try again").RetryIn(time.Second)
}

// dismiss tells whoever is connected that the session goes on elsewhere.
func (s *Session) dismiss() {
	if s.link != nil {
		s.link.Close(wire.CloseReplaced, wire.FieldErrorf(wire.StaleEpoch, "session_id", "the session goes on over another connection"))
	}
}

// attach makes a link the one that messages go to, and closes the one that was.
func (s *Session) attach(link Conn) {
	if s.link != nil {
		s.hush(s.link)
	}
	s.dismiss()
	s.link = link
	s.heard = time.Now()
	if s.open != nil && len(s.open.pieces) > 0 {
		s.open.heard = s.heard // its pause is counted anew
		s.awaitPause()
	}
	for _, u := range s.turn {
		u.waits = s.heard // so is the time within which its result must be there
	}
	s.guard()
}

// spread is by how much of themselves such times differ.
const spread = 0.2

// lookEvery is how often the outbox is looked at while utterances wait, in case word of their end was lost.
const lookEvery = 3 * time.Second

// patience is how long nothing may be heard of the session.
func (s *Session) patience() time.Duration {
	if s.link == nil {
		return s.rooms.cfg.Resume
	}
	return s.rooms.cfg.Idle
}

// guard sets when the session is looked at: when it was neglected for too long, when its state is to be renewed, and
// from time to time while something is waited for.
func (s *Session) guard() {
	// At a moment of its own: many may have come at once, from an instance that is gone.
	next := min(s.patience()-time.Since(s.heard), backoff.Jitter(s.rooms.cfg.renew(), spread))
	if len(s.turn) > 0 {
		next = min(next, backoff.Jitter(lookEvery, spread))
	}
	for _, u := range s.turn {
		if s.link != nil && !u.told && !u.expiring {
			next = min(next, s.rooms.cfg.resultWithin()-time.Since(u.waits))
		}
	}
	next = max(next, 0)
	s.due = time.Now().Add(next)
	if s.watch == nil {
		s.watch = time.AfterFunc(next, s.look)
	} else {
		s.watch.Reset(next)
	}
}

// look sees to a session of which nothing was heard for a while.
func (s *Session) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	if patience := s.patience(); time.Since(s.heard) >= patience {
		if !s.ending {
			s.rooms.counts.Events.WithLabelValues("abandoned").Inc()
		}
		if s.link != nil {
			s.link.Close(wire.CloseIdle, wire.Errorf(wire.DeadlineExceeded, "nothing was heard for %s: send keepalive, or end the session", patience))
		}
		s.finish()
		return
	}
	if time.Since(s.renewed).Seconds() >= s.rooms.cfg.renew().Seconds()*(1-spread) {
		s.change()
	}
	if len(s.turn) > 0 && s.link != nil && !s.reading {
		s.reading = true
		s.rooms.background(s.peek)
	}
	s.remind()
	s.loseLateSpeech()
	s.guard()
}

// remind looks after utterances that have waited for long. Word that their audio is wanted may have been lost; and one
// whose time is over ends.
func (s *Session) remind() {
	for _, u := range s.turn {
		waited := time.Since(u.waits)
		switch {
		case u.told || waited < lookEvery:
		case s.link != nil && waited >= s.rooms.cfg.resultWithin():
			reason := core.ReasonDeadline
			if slices.Contains(s.again, u) {
				reason = core.ReasonAudioLost
			}
			s.expire(u, reason)
		case !u.placing:
			s.rooms.background(func(ctx context.Context) { _, _ = s.rooms.jobs.ResumeWithAudio(ctx, u.job) }) // it is tried again
		}
	}
}

// expire ends an utterance without a result, once. Its job decides if there is one.
func (s *Session) expire(u *utterance, reason core.Reason) {
	if u.expiring {
		return
	}
	u.expiring = true
	u.stopWaiting()
	s.rooms.background(func(ctx context.Context) { s.rooms.giveUp(ctx, u, reason) })
}

// finish takes the session out of the world. What its jobs still bring goes to its outbox.
func (s *Session) finish() {
	s.over = true
	for _, t := range []*time.Timer{s.pause, s.parting, s.watch} {
		if t != nil {
			t.Stop()
		}
	}
	if s.open != nil {
		s.drop(s.open)
		s.open = nil
	}
	for _, u := range s.again {
		s.drop(u)
	}
	for _, u := range s.turn {
		u.stopWaiting() // where the session goes on they are placed
	}
	for _, u := range s.spoken {
		u.voice.lose(s.rooms.audio)
		s.forget(u)
	}
	s.rooms.leave(s)
}

// stop ends the session here because the instance stops.
func (s *Session) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.finish()
	}
}

// speechFor is how long a session that was asked to end waits for speech that was promised.
const speechFor = 10 * time.Second

// farewell ends a session that was asked to end and has nothing left to say.
func (s *Session) farewell() {
	if !s.ending || s.over || s.link == nil || s.sent < s.turns {
		return
	}
	if len(s.spoken) > 0 && !s.hasty {
		if s.parts {
			return
		}
		s.parts = true
		s.parting = time.AfterFunc(speechFor, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.hasty = true
			s.farewell()
		})
		return
	}
	if s.totals.SessionID == "" {
		s.rooms.counts.Events.WithLabelValues("ended").Inc()
	}
	s.totals.SessionID, s.totals.Utterances = string(s.ref.Name), s.turns
	s.change()
	s.link.SendFinal(s.totals)
	// It may not arrive: until nobody can ask any more, whoever comes back is told again.
	s.link, s.heard = nil, time.Now()
	s.guard()
}
