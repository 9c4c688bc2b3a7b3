package session

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// utterance is what somebody says, from the first sound to the terminal message. Its session's lock guards it.
type utterance struct {
	segment
	session   *Session
	id        string
	request   core.RequestID
	direction core.Direction

	turn    int64     // once it is committed
	since   time.Time // when that was; zero if it was elsewhere
	waits   time.Time // since when its terminal message is waited for here
	job     core.JobID
	spec    core.Spec
	reason  string // why it ended
	version int64  // of the session's state that first has it; 0: it was saved elsewhere
	written []byte // as it is saved
	given   bool   // up
	placing bool   // it is being given to a node
	revived bool   // it was committed elsewhere, and its sound comes once more
	attempt int    // of the last partial
	rev     int64
	told    bool // its terminal message is there
	ended   bool // and was sent
	stands  int  // the attempt whose result it is; 0: there is none
	voice   voice
}

// pastRequests is how many requests of a session are remembered, to tell a repeated one by.
const pastRequests = 128

// Words is one piece of audio, with what it says of its utterance.
type Words struct {
	Seq       int64 // 0: the next
	Utterance string
	Src       core.Lang
	Request   core.RequestID
	Data      []byte // not kept by the caller
	Final     bool
}

func (s *Session) begin(id string, src core.Lang, request core.RequestID) *wire.Error {
	direction, ok := s.set.direction(src)
	if !ok {
		return wire.Invalid("src_lang", "must be one of the session's languages, %s or %s", s.set.Langs[0], s.set.Langs[1])
	}
	s.open = &utterance{session: s, id: id, request: request, direction: direction}
	return nil
}

// hear takes in the audio frame that was just counted.
func (s *Session) hear(w *Words) *wire.Error {
	if s.counted <= s.cut {
		return s.rehear(w)
	}
	if w.Utterance != "" && (s.open == nil || s.open.id != w.Utterance) && slices.Contains(s.past, w.Utterance) {
		s.warn("LATE_AUDIO", "utterance "+w.Utterance+" has ended; what came after its end is dropped")
		if s.open == nil {
			s.cut = s.counted // it belongs to none, and never will
			s.change()
		}
		return nil
	}
	if s.open != nil && w.Utterance != "" && s.open.id != "" && s.open.id != w.Utterance {
		s.commit(byHand)
	}
	if len(w.Data) > 0 {
		if e := s.take(w); e != nil {
			return e
		}
	}
	if w.Final {
		s.commit(byHand) // nothing, if nothing is open: the pause was first
	}
	return nil
}

// take puts audio into the open utterance, or opens one.
func (s *Session) take(w *Words) *wire.Error {
	cfg := &s.rooms.cfg
	if s.open == nil {
		if len(s.turn) >= mostWaiting*cfg.Most {
			return wire.Errorf(wire.RateLimited, "%d utterances wait for their results: say less at once", len(s.turn))
		}
		if e := s.begin(w.Utterance, w.Src, w.Request); e != nil {
			return e
		}
	}
	u := s.open
	if u.id == "" {
		u.id = w.Utterance
	}
	if u.request == "" {
		u.request = w.Request
	}
	first := w.Data
	if len(u.frames) > 0 {
		first = u.frames[0]
	}
	now, long := time.Now(), lasts(&s.set.Format, first, w.Data)
	// A packet says itself how long it lasts; what it takes to carry it does not lie.
	if !s.pace.heard(now, max(long, time.Duration(len(w.Data))*time.Second/fastest), cfg.Ahead) {
		return wire.Errorf(wire.RateLimited, "audio runs %s ahead of real time; at most %s", s.pace.ahead.Round(time.Millisecond), cfg.Ahead)
	}
	if u.bytes+len(w.Data) > cfg.PerTurn {
		return wire.Errorf(wire.PayloadTooLarge, "the utterance is larger than %d bytes", cfg.PerTurn)
	}
	if !s.rooms.Sounds.take(len(w.Data)) {
		return wire.Errorf(wire.RateLimited, "this scheduler holds as much audio as it can: try again, or try another instance")
	}
	r := s.set.rules()
	ended, dropped := u.add(&s.set.Format, &r, piece{s.counted, slices.Clone(w.Data), long, now})
	s.rooms.Sounds.give(dropped)
	if ended != "" {
		s.commit(ended)
		return nil
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(s.set.Pause, s.paused)
	} else {
		s.timer.Reset(s.set.Pause)
	}
	return nil
}

// paused commits the open utterance when no audio has come for long enough.
func (s *Session) paused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.link == nil || s.open == nil || len(s.open.frames) == 0 {
		return // while the connection is lost, the rest may be on its way
	}
	if left := s.set.Pause - time.Since(s.open.heard); left > 0 {
		s.timer.Reset(left)
		return
	}
	s.commit(byPause)
}

// ackEvery is after how many frames audio is acknowledged.
const ackEvery = 10

func (s *Session) acknowledge(now bool) {
	if s.link != nil && (now && s.counted > s.acked || s.counted >= s.acked+ackEvery) {
		s.acked = s.counted
		s.link.Send(wire.AudioAck{Seq: s.counted})
	}
}

func (s *Session) warn(code, detail string) {
	if s.link != nil {
		s.link.Send(wire.Warning{Code: code, Detail: detail})
	}
}

// commit closes the open utterance and makes a job of it. One without audio, or with nothing but silence that nobody
// closed by hand, is none.
func (s *Session) commit(reason string) {
	u := s.open
	if u == nil {
		return
	}
	s.open = nil
	if s.timer != nil {
		s.timer.Stop()
	}
	s.cut = s.counted
	s.remember(u.id)
	s.version++
	if len(u.frames) == 0 || !u.voiced && reason != byHand {
		s.drop(u)
		s.change()
		return
	}
	if u.request == "" {
		u.request = core.RequestID(string(s.ref.Name) + ":" + strconv.FormatInt(u.first, 10))
	}
	if first := s.requests[u.request]; first != nil {
		s.drop(u)
		s.change()
		s.warn("DUPLICATE_REQUEST", "request_id "+string(u.request)+" was used before in this session; the job is "+string(first.job))
		return
	}
	s.turns++
	u.turn, u.since, u.reason, u.version = s.turns, time.Now(), reason, s.version
	s.rooms.counts.Committed(reason)
	s.register(u)
	s.acknowledge(true)
	if s.unanswered() > s.rooms.cfg.Most {
		s.refuse(u, wire.Errorf(wire.RateLimited, "more than %d utterances wait for their results", s.rooms.cfg.Most), "")
		return
	}
	s.rooms.background(func(ctx context.Context) { s.rooms.place(ctx, u) })
}

// drop gives up the sound of an utterance that is not kept for a job.
func (s *Session) drop(u *utterance) {
	if u.frames != nil {
		s.rooms.Sounds.give(u.bytes)
		u.frames, u.bytes = nil, 0
	}
}

// mostWaiting is how many times as many utterances as may be unanswered a session may begin: beyond that it is not
// somebody who speaks.
const mostWaiting = 16

// unanswered is how many utterances have not ended. Those that have, and wait for an earlier one, do not count until
// they are many.
func (s *Session) unanswered() int {
	waiting := len(s.fresh)
	return len(s.turn) - min(waiting, mostWaiting*s.rooms.cfg.Most)
}

// announce says where utterances were cut that the store has since a version of the session's state. Before, it is not
// certain: whoever takes the session over, and has never heard of them, may have to cut them anew.
func (s *Session) announce(since int64) {
	for _, u := range s.waiting() {
		if u.version > since && u.version <= s.stored {
			s.tell(u)
		}
	}
}

// tell says where an utterance was cut.
func (s *Session) tell(u *utterance) {
	if s.link == nil {
		return // whoever comes back is told
	}
	s.link.Send(wire.UtteranceCommitted{
		JobID: string(u.job), RequestID: string(u.request), UtteranceID: u.id, UtteranceIndex: u.turn - 1,
		SrcLang: string(u.direction.Src), TgtLang: string(u.direction.Tgt), Reason: u.reason,
		FirstSeq: u.first, LastSeq: u.last, DurationMS: u.spec.Utterance.AudioMS,
	})
}

// register makes a committed utterance known by its turn, its request and its job.
func (s *Session) register(u *utterance) {
	options := s.set.Options
	options.RequireTTS = options.RequireTTS || s.set.TTS
	u.spec = s.spec(u, options, u.long.Milliseconds())
	u.job = u.spec.Job()
	if s.asked = append(s.asked, u.request); len(s.asked) > pastRequests {
		delete(s.requests, s.asked[0])
		s.asked = slices.Delete(s.asked, 0, 1)
	}
	s.expect(u)
	s.keep(u)
}

// spec is what is asked of a node for an utterance. The same utterance always gives the same.
func (s *Session) spec(u *utterance, options core.Options, ms int64) core.Spec {
	return core.Spec{
		Request: u.request, Tenant: s.ref.Tenant, Session: s.ref.Name, Incarnation: s.ref.Incarnation, Direction: u.direction, Options: options,
		AudioRef:  RefPrefix + s.ref.String() + "/" + strconv.FormatInt(u.first, 10) + "-" + strconv.FormatInt(u.last, 10),
		Utterance: core.Utterance{Turn: u.turn, ID: u.id, AudioMS: ms},
	}
}

// expect waits for the terminal message of an utterance.
func (s *Session) expect(u *utterance) {
	s.turn[u.turn], s.requests[u.request], s.spoken[u.job] = u, u, u
	u.waits = time.Now()
	s.rooms.mu.Lock()
	s.rooms.spoken[u.job] = u
	s.rooms.mu.Unlock()
	if time.Until(s.due) > 2*lookEvery {
		s.guard() // it was not to be looked at so soon
	}
}

// keep holds the sound of an utterance until its job has ended.
func (s *Session) keep(u *utterance) {
	s.rooms.Sounds.put(u.job, &Clip{
		Format: s.set.Format, Data: u.sound(), Length: u.spec.Utterance.AudioMS, Partials: s.set.Partials, Speech: s.set.TTS,
	})
	u.frames = nil
}
