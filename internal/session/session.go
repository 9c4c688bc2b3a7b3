package session

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Session is one conversation. Its lock is never held while the store or dispatch is asked; a link takes what it is
// sent without making anybody wait, so messages are sent under the lock, in their order.
type Session struct {
	rooms  *Rooms
	id     core.SessionID
	tenant core.TenantID
	hash   string // of the resume token

	mu       sync.Mutex
	set      settings
	link     Link // nil while nobody listens
	heard    time.Time
	timer    *time.Timer // the pause of the open utterance
	watch    *time.Timer // nobody has said anything, or come back, for too long
	began    time.Time
	streamed time.Duration // audio since began
	counted  int64         // audio frames
	acked    int64         // the last that was acknowledged
	cut      int64         // the last frame of which it was decided where it belongs
	again    []*utterance  // whose sound is to come once more, in its order
	open     *utterance
	turns    int64 // utterances that were committed
	turn     map[int64]*utterance
	requests map[core.RequestID]*utterance // that were committed, the last few
	spoken   map[core.JobID]*utterance     // of which something may still come
	asked    []core.RequestID              // the same in their order
	kept     []byte                        // the part of its state that does not change with every utterance, as JSON
	past     []string                      // names of utterances that have ended, the last few

	sent    int64            // the last durable message that was sent
	known   int64            // the last there is
	fresh   map[int64][]byte // durable messages that passed through here and were not sent yet
	reading bool

	totals wire.SessionEnded
	ending bool
	over   bool
}

// pastNames is how many names of ended utterances are remembered, to tell late audio by.
const pastNames = 64

// StartParams describes a new session.
type StartParams struct {
	ID      core.SessionID // empty: one is made
	Tenant  core.TenantID
	Langs   [2]core.Lang
	Src     core.Lang // empty: the first of them
	Options core.Options
	Wish    *wire.SessionStart // the rest of what was asked for
}

// Start begins a conversation and says so on its link.
func (r *Rooms) Start(ctx context.Context, p StartParams, link Link) (*Session, error) {
	s := r.make(p.ID, p.Tenant)
	format, e := Format(p.Wish.Audio)
	if e != nil {
		return nil, e
	}
	s.set = settings{
		Langs: p.Langs, Src: p.Src, Format: format, Pause: r.cfg.Pause, Longest: r.cfg.MaxUtterance, Silence: r.cfg.Silence,
		Partials: p.Wish.Partials, TTS: p.Wish.TTS, Options: p.Options,
	}
	if s.set.Src == "" {
		s.set.Src = p.Langs[0]
	}
	if _, ok := s.set.direction(s.set.Src); !ok {
		return nil, wire.Invalid("src_lang", "must be one of the session's languages")
	}
	if e := s.set.segment(&r.cfg, &p.Wish.Segmentation); e != nil {
		return nil, e
	}
	token, hash := secret()
	s.hash = hash
	old, err := r.store.LoadSession(ctx, s.id)
	if err != nil {
		return nil, r.down(err)
	}
	if old != nil {
		return nil, wire.Wrong(wire.Forbidden, "session_id", "there is a session of this name: resume it, or use another name")
	}
	if err := s.save(ctx); err != nil {
		return nil, r.down(err)
	}
	if !r.enter(s) {
		return nil, wire.Wrong(wire.Forbidden, "session_id", "there is a session of this name: resume it, or use another name")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.counts.Sessions.WithLabelValues("started").Inc()
	s.attach(link)
	link.Send(wire.SessionStarted{
		SessionID: string(s.id), ResumeToken: token, Langs: []string{string(p.Langs[0]), string(p.Langs[1])},
		SrcLang: string(s.set.Src), Audio: format, Segmentation: s.set.said(), Limits: r.cfg.limits(),
	})
	return s, nil
}

func (r *Rooms) make(id core.SessionID, tenant core.TenantID) *Session {
	if id == "" {
		id = core.SessionID("session-" + uuid.Must(uuid.NewV7()).String())
	}
	now := time.Now()
	return &Session{
		rooms: r, id: id, tenant: tenant, began: now, heard: now, turn: make(map[int64]*utterance),
		requests: make(map[core.RequestID]*utterance), spoken: make(map[core.JobID]*utterance), fresh: make(map[int64][]byte),
	}
}

// enter puts a session into the table, unless there is one of its name.
func (r *Rooms) enter(s *Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.sessions[s.id] != nil {
		return false
	}
	r.sessions[s.id] = s
	return true
}

func (r *Rooms) leave(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[s.id] == s {
		delete(r.sessions, s.id)
	}
}

// down is the answer when the store does not answer.
func (r *Rooms) down(err error) *wire.Error {
	r.log.Warn("the store did not answer", "operation", "session", "error", err)
	return &wire.Error{Code: wire.SchedulerDependencyDown, RetryAfter: 1, Detail: "the shared store does not answer: try again"}
}

// ID is the session's name.
func (s *Session) ID() core.SessionID { return s.id }

// attach makes a link the one that messages go to.
func (s *Session) attach(link Link) {
	s.link = link
	s.heard = time.Now()
	s.guard(s.rooms.cfg.Idle)
}

// Detach notes that a link is lost. The session waits for somebody to come back.
func (s *Session) Detach(link Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != link {
		return // it was replaced
	}
	s.link = nil
	if s.over {
		return
	}
	s.heard = time.Now()
	s.guard(s.rooms.cfg.Resume)
}

// guard sets when the session is given up, unless something is heard of it.
func (s *Session) guard(after time.Duration) {
	if s.watch == nil {
		s.watch = time.AfterFunc(after, s.neglected)
	} else {
		s.watch.Reset(after)
	}
}

// neglected judges a session of which nothing was heard for long.
func (s *Session) neglected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	patience := s.rooms.cfg.Idle
	if s.link == nil {
		patience = s.rooms.cfg.Resume
	}
	if left := patience - time.Since(s.heard); left > 0 {
		s.guard(left)
		return
	}
	if !s.ending {
		s.rooms.counts.Sessions.WithLabelValues("abandoned").Inc()
	}
	if s.link != nil {
		s.link.Close(wire.CloseIdle, wire.Errorf(wire.DeadlineExceeded, "nothing was heard for %s: send keepalive, or end the session", patience))
	}
	s.finish()
}

// touch notes a sign of life.
func (s *Session) touch() { s.heard = time.Now() }

// Keepalive is one and nothing else.
func (s *Session) Keepalive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch()
}

// finish takes the session out of the world. What its jobs still bring goes to its outbox.
func (s *Session) finish() {
	s.over = true
	for _, t := range []*time.Timer{s.timer, s.watch} {
		if t != nil {
			t.Stop()
		}
	}
	if s.open != nil {
		s.rooms.Sounds.give(s.open.bytes)
		s.open = nil
	}
	for job := range s.spoken {
		s.rooms.forget(job)
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

// End commits what is open and says goodbye when every utterance has its terminal message.
func (s *Session) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch()
	s.commit(byEnd)
	s.ending = true
	s.farewell()
}

// farewell ends a session that was asked to end and has nothing left to say.
func (s *Session) farewell() {
	if !s.ending || s.over || s.link == nil || s.sent < s.turns {
		return
	}
	if s.totals.SessionID == "" {
		s.rooms.counts.Sessions.WithLabelValues("ended").Inc()
	}
	s.totals.SessionID, s.totals.Utterances = string(s.id), s.turns
	s.link.Send(s.totals)
	s.link.Close(wire.CloseNormal, nil)
	// It may not arrive: until nobody can ask any more, whoever comes back is told again.
	s.link, s.heard = nil, time.Now()
	s.guard(s.rooms.cfg.Resume)
}

// Update changes what holds from the next utterance on.
func (s *Session) Update(src core.Lang, options *core.Options, u *wire.SessionUpdate) *wire.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch()
	next := s.set
	if src != "" {
		if _, ok := next.direction(src); !ok {
			return wire.Invalid("src_lang", "must be one of the session's languages")
		}
		next.Src = src
	}
	if u.Segmentation != nil {
		if e := next.segment(&s.rooms.cfg, u.Segmentation); e != nil {
			return e
		}
	}
	if u.Partials != nil {
		next.Partials = *u.Partials
	}
	if u.TTS != nil {
		next.TTS = *u.TTS
	}
	if options != nil {
		next.Options = *options
	}
	s.set, s.kept = next, nil
	s.rooms.background(func(ctx context.Context) { _ = s.save(ctx) })
	return nil
}

// save puts the session's state where it can be found when this instance is gone.
func (s *Session) save(ctx context.Context) error {
	s.mu.Lock()
	body, err := s.state()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.rooms.store.SaveSession(ctx, store.SaveParams{Session: s.id, Body: body, Keep: s.rooms.cfg.keep()})
}
