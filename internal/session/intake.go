package session

import (
	"slices"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// Words is one piece of audio, with what its client says of its utterance.
type AudioFrame struct {
	Seq       int64 // 0: the next
	Utterance string
	Src       core.Lang
	Request   core.RequestID
	Data      []byte // not kept by the caller
	Final     bool
}

// begin opens an utterance.
func (s *Session) begin(id string, src core.Lang, request core.RequestID) *wire.Error {
	direction, ok := s.set.direction(src)
	if !ok {
		return wire.Invalid("src_lang", "must be one of the session's languages, %s or %s", s.set.Langs[0], s.set.Langs[1])
	}
	s.open = &utterance{session: s, id: id, src: src, request: request, direction: direction, options: s.options}
	return nil
}

// partSign is between the request_id of an utterance and the number of its further part. No client can use it in an id, so a
// part is never taken for a repetition of another request.
const partSign = "~"

// beginPart opens a further part of an utterance that has ended. If that had nothing but silence and made no job, it opens
// that utterance anew.
func (s *Session) beginPart(c *closedUtterance) {
	direction, _ := s.set.direction(c.Src) // it was one of the session's, and those do not change
	s.open = &utterance{session: s, id: c.Name, src: c.Src, request: c.Request, direction: direction, options: s.options}
	if c.Turn == 0 {
		return
	}
	part := *c
	part.Parts++
	s.open.request, s.open.continues = core.RequestID(string(c.Request)+partSign+strconv.Itoa(part.Parts)), &part
}

// hear takes in the audio frame that was just counted.
func (s *Session) hear(w *AudioFrame) *wire.Error {
	if s.counted <= s.cut {
		return s.rehear(w)
	}
	if w.Utterance != "" && (s.open == nil || s.open.id != w.Utterance) {
		if c := s.recall(w.Utterance); c != nil {
			return s.hearClosed(c, w)
		}
		if s.open != nil && s.open.id != "" {
			s.commit(ending{reason: byHand, through: s.counted - 1})
		}
	}
	if len(w.Data) > 0 {
		if e := s.take(w); e != nil {
			return e
		}
	}
	if w.Final {
		s.endByHand(w.Utterance)
	}
	return nil
}

// hearClosed takes in audio that names an utterance which has ended. If its client ended it, the audio is late; else it
// is a further part, so that nothing that was said is lost.
func (s *Session) hearClosed(c *closedUtterance, w *AudioFrame) *wire.Error {
	if len(w.Data) == 0 {
		c.Final = c.Final || w.Final
		s.belongsToNone()
		return nil
	}
	if c.Final {
		s.warn("LATE_AUDIO", "utterance "+w.Utterance+" has ended; audio after its end is dropped")
		s.belongsToNone()
		return nil
	}
	part := *c
	s.commit(ending{reason: byHand, through: s.counted - 1})
	if e := s.mayBegin(); e != nil {
		return e
	}
	s.beginPart(&part)
	if e := s.add(w); e != nil {
		s.open = nil // nothing is in it
		return e
	}
	if part.Turn == 0 {
		s.forgetClosed(part.Name) // it has begun anew
	}
	if w.Final {
		s.endByHand(w.Utterance)
	}
	return nil
}

// belongsToNone notes that the frame that was just counted is part of no utterance, and never will be.
func (s *Session) belongsToNone() {
	if s.open == nil {
		s.cut = s.counted
		s.change()
	}
}

// endByHand ends the open utterance because its client says so. If a pause was first, what follows is no further part. The
// name is that of an utterance that is open or was never heard of, or there is none.
func (s *Session) endByHand(name string) {
	if s.open != nil {
		s.commit(ending{reason: byHand, through: s.counted, final: true})
		return
	}
	if c := s.lastClosed(); c != nil && name == "" {
		c.Final = true
	}
	s.belongsToNone()
}

// maxWaiting is how many times as many utterances as may be unanswered a session may begin: beyond that it is not
// somebody who speaks.
const maxWaiting = 4

// utteranceRate is how many utterances a session may begin each second.
const utteranceRate = 5

// mayBegin says why no utterance can begin now, if none can.
func (s *Session) mayBegin() *wire.Error {
	if len(s.turn) >= maxWaiting*s.rooms.cfg.MaxUnanswered {
		return wire.Errorf(wire.RateLimited, "%d utterances wait for their results: say less at once", len(s.turn)).RetryIn(time.Second)
	}
	if !s.begun.Allow() {
		return wire.Errorf(wire.RateLimited, "at most %d utterances may begin each second", utteranceRate).RetryIn(time.Second)
	}
	return nil
}

// take puts audio into the open utterance, or opens one.
func (s *Session) take(w *AudioFrame) *wire.Error {
	opened := false
	if s.open == nil {
		if e := s.mayBegin(); e != nil {
			return e
		}
		if c := s.continued(); c != nil && w.Utterance == "" {
			s.beginPart(c)
		} else if e := s.begin(w.Utterance, w.Src, w.Request); e != nil {
			return e
		}
		opened = true
	}
	e := s.add(w)
	if e != nil && opened {
		s.open = nil // what is refused begins nothing
	}
	return e
}

// add puts audio into the open utterance.
func (s *Session) add(w *AudioFrame) *wire.Error {
	cfg, u := &s.rooms.cfg, s.open
	if u.id == "" {
		u.id = w.Utterance
	}
	if u.request == "" {
		u.request = w.Request
	}
	first := w.Data
	if len(u.pieces) > 0 {
		first = u.pieces[0].data
	}
	if e := audio.CheckFrame(&s.set.Format, first, w.Data); e != nil {
		return e
	}
	now, length := time.Now(), audio.FrameDuration(&s.set.Format, first, w.Data)
	// A packet says itself how long it lasts; what it takes to carry it does not lie.
	if wait := s.pace.heard(now, max(length, time.Duration(len(w.Data))*time.Second/audio.MaxByteRate), cfg.Ahead); wait > 0 {
		e := wire.Errorf(wire.RateLimited, "audio runs further ahead of real time than %s", cfg.Ahead)
		return e.RetryIn(min(max(wait, 100*time.Millisecond), cfg.Ahead))
	}
	if e := s.reserveAudio(u, len(w.Data)); e != nil {
		return e
	}
	r := s.set.rules()
	ended, dropped := u.add(&s.set.Format, &r, &s.noise, piece{s.counted, slices.Clone(w.Data), length, now})
	s.rooms.audio.Release(dropped)
	if ended != "" {
		s.commit(ending{reason: ended, through: s.counted})
		return nil
	}
	s.awaitPause()
	return nil
}

// reserveAudio makes room for audio of an utterance.
func (s *Session) reserveAudio(u *utterance, size int) *wire.Error {
	if u.bytes+size > s.rooms.cfg.MaxUtteranceBytes {
		return wire.Errorf(wire.PayloadTooLarge, "the utterance is larger than %d bytes", s.rooms.cfg.MaxUtteranceBytes)
	}
	if !s.rooms.audio.Reserve(size) {
		return wire.Errorf(wire.RateLimited, "this instance holds as much audio as it can: resume in a moment, on another instance if there is one").RetryIn(time.Second)
	}
	return nil
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
