package session

import (
	"cmp"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// utterance is one utterance of a session, from its first audio to its terminal message and its speech. The session's mutex
// guards it.
type utterance struct {
	segment // its audio until it is committed, or while it is replayed
	session *Session

	id        string
	src       core.Lang // as its client gave it, if it did
	request   core.RequestID
	direction core.Direction
	options   *optionSet
	continues *closedUtterance // set only if this is a further part of another utterance
	// traceparent is the trace context that its client sent; empty: none. It is not saved.
	traceparent string
	counted     bool // it counts towards the limits of utterances, from its first audio on

	// Set when it is committed.
	turn         int64
	reason       string // why it ended
	committedAt  time.Time
	stateVersion int64 // the version of the session's state that first contains it; 0: another instance saved it
	spec         core.Spec
	job          core.JobID

	waitingSince time.Time // the time since which its terminal message is awaited over this connection
	restored     bool      // it was committed on another instance, and its audio is sent again
	audioLost    bool      // its client no longer has its audio

	placement placement
	partial   partialPosition
	result    resultState
	speech    speechQueue
}

// partialPosition is the position of the last partial result that was sent.
type partialPosition struct {
	attempt int
	rev     int64
}

// advance moves to a partial result. It reports false if that is not newer than the last.
func (p *partialPosition) advance(attempt int, rev int64) bool {
	if attempt < p.attempt {
		return false
	}
	if attempt > p.attempt {
		*p = partialPosition{attempt: attempt}
	}
	if rev <= p.rev {
		return false
	}
	p.rev = rev
	return true
}

// resultState is what is known of an utterance's terminal message.
type resultState struct {
	stored   bool      // it is in the outbox
	storedAt time.Time // when this instance learned that; zero: it was not told
	size     int       // its size, if that is known
	sent     bool      // it was sent to the client
	attempt  int       // the attempt whose result it is; 0: it was not sent, or no speech follows it
	received time.Time // when it arrived at this instance and could be sent; zero: it is not known, or waited for something
}

// firstPartTurn is the turn of the utterance's first part, which may be itself; 0 if that is not committed.
func (u *utterance) firstPartTurn() int64 {
	if u.continues != nil {
		return u.continues.Turn
	}
	return u.turn
}

// needsAudio reports whether the audio of an utterance that was committed on another instance is needed again.
func (u *utterance) needsAudio() bool { return !u.result.stored && !u.audioLost }

// reserveAudio reserves bytes of the audio buffer for the utterance.
func (u *utterance) reserveAudio(size int) *wire.Error {
	r := u.session.registry
	if u.bytes+size > r.cfg.MaxUtteranceBytes {
		return wire.Errorf(wire.PayloadTooLarge, "the utterance is larger than %d bytes", r.cfg.MaxUtteranceBytes)
	}
	if !r.audio.Reserve(size) {
		return wire.Errorf(wire.RateLimited,
			"this instance holds as much audio as it can: resume in a moment, on another instance if there is one").RetryIn(time.Second)
	}
	return nil
}

// releaseAudio drops audio that is not stored for a job.
func (u *utterance) releaseAudio() { u.session.registry.audio.Release(u.release()) }

// storeAudio stores the audio as the clip of the utterance's job, until the job has ended.
func (u *utterance) storeAudio() {
	u.session.registry.audio.Put(u.job, u.session.settings.clip(u))
	u.frames, u.bytes = nil, 0 // the clip has taken over their reservation
}

// setSpec makes the specification of the utterance's job. The same utterance always makes the same.
func (u *utterance) setSpec(options core.Options, audioMS int64) {
	ref := u.session.ref
	u.spec = core.Spec{
		Request: u.request, Tenant: ref.Tenant, Session: ref.Name, Incarnation: ref.Incarnation,
		Direction: u.direction, Options: options,
		AudioRef:  audio.Frames{First: u.firstSeq, Last: u.lastSeq}.Ref(ref),
		Utterance: core.Utterance{Turn: u.turn, ID: u.id, AudioMS: audioMS},
	}
	if u.continues != nil {
		u.spec.Utterance.Continues = u.continues.Turn
	}
	u.job = u.spec.Job()
}

// committedFrame is the message that reports the utterance's bounds to the client.
func (u *utterance) committedFrame() wire.UtteranceCommitted {
	return wire.UtteranceCommitted{
		JobID: string(u.job), RequestID: string(u.request), UtteranceID: u.id, UtteranceIndex: u.turn - 1,
		SrcLang: string(u.direction.Src), TgtLang: string(u.direction.Tgt), Reason: u.reason,
		FirstSeq: u.firstSeq, LastSeq: u.lastSeq, DurationMS: u.spec.Utterance.AudioMS, Continues: continuesIndex(&u.spec),
	}
}

// continuesIndex is the index of the utterance that this one is a further part of; nil if there is none.
func continuesIndex(spec *core.Spec) *int64 {
	if spec.Utterance.Continues == 0 {
		return nil
	}
	index := spec.Utterance.Continues - 1
	return &index
}

// sortByTurn sorts utterances in the order in which they were committed.
func sortByTurn(list []*utterance) {
	slices.SortFunc(list, func(a, b *utterance) int { return cmp.Compare(a.turn, b.turn) })
}

// closedUtterance is the record of an utterance that has ended. It decides to which utterance audio belongs that arrives after
// the end. It is saved with the session.
type closedUtterance struct {
	Name    string // the client's, if it has one
	Turn    int64  // of its first part; 0: it made no job
	Request core.RequestID
	Src     core.Lang
	Parts   int    // further parts that were made of audio after its end
	Reason  string // why it ended
	// Final says that the client ended it, so that audio after its end is late. Otherwise that audio is a further part.
	Final bool
}

// maxClosed is how many ended utterances are remembered.
const maxClosed = 64

// closedUtterances are the last utterances of a session that have ended, oldest first.
type closedUtterances []closedUtterance

// find returns the last ended utterance with a name; nil when there is none.
func (l closedUtterances) find(name string) *closedUtterance {
	for i := len(l) - 1; i >= 0 && name != ""; i-- {
		if l[i].Name == name {
			return &l[i]
		}
	}
	return nil
}

// last returns the utterance that ended last; nil when there is none.
func (l closedUtterances) last() *closedUtterance {
	if len(l) == 0 {
		return nil
	}
	return &l[len(l)-1]
}

// add records that an utterance has ended. A further part is recorded as the utterance that it continues.
func (l *closedUtterances) add(u *utterance, end utteranceEnd) {
	c := closedUtterance{Name: u.id, Turn: u.turn, Request: u.request, Src: u.direction.Src, Reason: end.reason, Final: end.final}
	if u.turn == 0 {
		c.Src = u.src // when it is opened again it has the language that the session has then
	}
	if u.continues != nil {
		c = *u.continues
		c.Reason, c.Final = end.reason, end.final
		if i := slices.IndexFunc(*l, func(old closedUtterance) bool { return old.Turn == c.Turn && c.Turn > 0 }); i >= 0 {
			*l = slices.Delete(*l, i, i+1)
		}
	}
	if *l = append(*l, c); len(*l) > maxClosed {
		*l = slices.Delete(*l, 0, 1)
	}
}

// finalize makes audio late from now on that names an utterance, which is identified by the turn of its first part. It
// reports whether that changed anything.
func (l closedUtterances) finalize(firstTurn int64) (changed bool) {
	for i := range l {
		if c := &l[i]; c.Turn == firstTurn && !c.Final {
			c.Final, changed = true, true
		}
	}
	return changed
}

// remove removes the utterances with a name.
func (l *closedUtterances) remove(name string) {
	*l = slices.DeleteFunc(*l, func(c closedUtterance) bool { return c.Name == name })
}

// continuable returns the utterance that audio without a name continues: the last one, if its client named it and a pause
// ended it, or if it reached its maximum duration. If that pause was before the first speech, it is enough that its client
// described it in any way. nil: the audio begins an utterance of its own.
func (l closedUtterances) continuable() *closedUtterance {
	c := l.last()
	if c == nil || c.Final {
		return nil
	}
	described := c.Name != "" || c.Turn == 0 && (c.Src != "" || c.Request != "")
	if c.Reason == reasonMaxDuration && c.Turn > 0 || c.Reason == reasonPause && described {
		return c
	}
	return nil
}

// maxRequests is how many requests of a session are remembered, to recognise a repeated one.
const maxRequests = 128

// requestHistory is the last requests of a session, by which a repeated request is recognised.
type requestHistory struct {
	utterances map[core.RequestID]*utterance
	order      []core.RequestID // oldest first; those of restored utterances are not in it
}

// find returns the utterance of a request; nil when the request is new.
func (h *requestHistory) find(id core.RequestID) *utterance { return h.utterances[id] }

// add adds the request of a new utterance and drops the oldest one when there are too many.
func (h *requestHistory) add(u *utterance) {
	if h.order = append(h.order, u.request); len(h.order) > maxRequests {
		delete(h.utterances, h.order[0])
		h.order = slices.Delete(h.order, 0, 1)
	}
	h.utterances[u.request] = u
}

// assignTurn gives an utterance its turn.
func (s *Session) assignTurn(u *utterance, reason string) {
	s.turns++
	s.saver.version++
	u.turn, u.committedAt, u.reason, u.stateVersion = s.turns, time.Now(), reason, s.saver.version
}

// submit makes a job of a committed utterance and places it.
func (s *Session) submit(u *utterance) {
	options := u.options.Options
	options.RequireTTS = options.RequireTTS || s.settings.TTS
	u.setSpec(options, u.duration.Milliseconds())
	u.spec.Utterance.SegmentationMS = u.segmentation(u.reason, u.committedAt).Milliseconds()
	s.requests.add(u)
	s.expect(u)
	u.storeAudio()
	s.intake.acknowledge(true)
	if limit := s.registry.cfg.MaxUnanswered; s.outbox.unanswered() > limit {
		s.refuse(u, wire.Errorf(wire.RateLimited, "more than %d utterances wait for their results", limit))
		return
	}
	s.enqueue(u)
	if u.placement.previous != nil {
		s.saver.markChanged() // placing it saves its bounds, and others are placed first
	}
	s.startPlacing(u)
}

// expect waits for the terminal message of an utterance.
func (s *Session) expect(u *utterance) {
	s.outbox.pending[u.turn], s.requests.utterances[u.request], s.unfinished[u.job] = u, u, u
	u.waitingSince = time.Now()
	s.registry.addUtterance(u)
	s.monitor.expect()
}

// dropUtterance drops an utterance that neither a result nor speech can follow any more.
func (s *Session) dropUtterance(u *utterance) {
	delete(s.unfinished, u.job)
	s.registry.removeUtterance(u)
}

// announceCommitted reports the bounds of utterances that the store has since a version of the session's state. Before they
// are saved they are not certain: an instance that takes the session over without them may divide the audio elsewhere.
func (s *Session) announceCommitted(since int64) {
	for _, u := range s.outbox.pendingInOrder() {
		if u.stateVersion > since && u.stateVersion <= s.saver.saved && s.conn != nil {
			s.conn.Send(u.committedFrame())
		}
	}
}
