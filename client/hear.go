package client

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// revision is how new a partial is.
type revision struct {
	attempt int
	rev     int64
}

// mostOpen bounds how many utterances without an end are remembered: far more than may wait at once.
const mostOpen = 4096

// span is the audio frames of an utterance.
type span struct{ first, last int64 }

// heard is what came, as far as it decides what is said to the program and what is kept.
type heard struct {
	seq    int64              // of the last durable message
	over   int64              // the last utterance that had its terminal message; -1: none
	spans  map[int64]span     // of the committed utterances that had none
	shown  map[int64]revision // the last partial of an utterance
	voices voices
}

func newHeard() heard {
	return heard{over: -1, spans: make(map[int64]span), shown: make(map[int64]revision)}
}

// hear handles one message.
func (s *Session) hear(l *link, kind wire.FrameType, body []byte) error {
	switch kind {
	case "":
		return s.hearSpeech(body)
	case wire.UtteranceCommitted{}.Type():
		return decoded(body, func(c *wire.UtteranceCommitted) error { return s.hearCommitted(c, len(body)) })
	case wire.SessionPartial{}.Type():
		return decoded(body, func(p *wire.SessionPartial) error { return s.hearPartial(p, len(body)) })
	case wire.SessionResult{}.Type():
		return decoded(body, func(r *wire.SessionResult) error { return s.hearResult(r, len(body)) })
	case wire.ErrorFrame{}.Type():
		return decoded(body, func(e *wire.ErrorFrame) error { return s.hearError(l, e, len(body)) })
	case wire.Warning{}.Type():
		return decoded(body, func(w *wire.Warning) error {
			return s.tell(Warning{Code: w.Code, Detail: w.Detail}, len(body))
		})
	case wire.GoAway{}.Type():
		return decoded(body, func(g *wire.GoAway) error { l.goAway(g); return nil })
	case wire.SessionEnded{}.Type():
		return decoded(body, func(e *wire.SessionEnded) error {
			if err := s.tell(SessionEnded(*e), len(body)); err != nil {
				return err
			}
			return errOver
		})
	}
	return nil // audio_ack tells nothing that is needed here, and what is not known is for a newer package
}

// decoded reads a message.
func decoded[T any](body []byte, then func(*T) error) error {
	v := new(T)
	if err := wire.Decode(body, v); err != nil {
		return unreadable(err)
	}
	return then(v)
}

// tell hands an event on, as soon as there is room for it.
func (s *Session) tell(e Event, size int) error {
	if !s.inbox.put(s.ctx, e, size) {
		return context.Cause(s.ctx)
	}
	return nil
}

func (s *Session) hearCommitted(c *wire.UtteranceCommitted, size int) error {
	h := &s.heard
	_, known := h.spans[c.UtteranceIndex]
	switch {
	case c.UtteranceIndex <= h.over:
		s.settle(c.LastSeq)
		return nil
	case known:
		return nil
	case c.UtteranceIndex == h.over+1:
		s.settle(c.FirstSeq - 1) // those before it are over, also if a cut swallowed where they ended
	}
	if len(h.spans) < mostOpen {
		h.spans[c.UtteranceIndex] = span{first: c.FirstSeq, last: c.LastSeq}
	}
	return s.tell(UtteranceCommitted(*c), size)
}

func (s *Session) hearPartial(p *wire.SessionPartial, size int) error {
	h := &s.heard
	was, shown := h.shown[p.UtteranceIndex]
	newer := p.AttemptID > was.attempt || p.AttemptID == was.attempt && p.Rev > was.rev
	if p.UtteranceIndex <= h.over || shown && !newer || !shown && len(h.shown) >= mostOpen {
		return nil
	}
	h.shown[p.UtteranceIndex] = revision{attempt: p.AttemptID, rev: p.Rev}
	return s.tell(PartialResult(*p), size)
}

func (s *Session) hearResult(r *wire.SessionResult, size int) error {
	if !s.heard.first(r.Seq, r.UtteranceIndex) {
		return nil
	}
	s.finished(r.UtteranceIndex)
	s.heard.voices.announced(r)
	if err := s.tell(Result(*r), size); err != nil {
		return err
	}
	s.acknowledge(r.Seq)
	return nil
}

func (s *Session) hearError(l *link, e *wire.ErrorFrame, size int) error {
	switch {
	case e.UtteranceIndex != nil:
		if !s.heard.first(e.Seq, *e.UtteranceIndex) {
			return nil
		}
		s.finished(*e.UtteranceIndex)
		if err := s.tell(UtteranceFailed{
			Seq: e.Seq, UtteranceIndex: *e.UtteranceIndex, UtteranceID: e.UtteranceID, RequestID: e.RequestID,
			Continues: e.Continues, JobID: e.JobID, Reason: e.Reason, Err: &e.Error,
		}, size); err != nil {
			return err
		}
		s.acknowledge(e.Seq)
		return nil
	case e.Fatal:
		l.last = e // the close follows
		return nil
	}
	return s.tell(Warning{Code: string(e.Code), Detail: e.Detail, ReplyTo: e.ReplyTo}, size)
}

// first reports whether a durable message comes for the first time, and is the first end of its utterance.
func (h *heard) first(seq, index int64) bool {
	if seq <= h.seq {
		return false
	}
	h.seq = seq
	return index > h.over
}

// acknowledge has the scheduler told that a durable message is here.
func (s *Session) acknowledge(seq int64) {
	s.mu.Lock()
	s.got = max(s.got, seq)
	s.mu.Unlock()
	signal(s.more)
}

// finished says that an utterance had its terminal message. They come in order, so those before it had theirs.
func (s *Session) finished(index int64) {
	h := &s.heard
	h.over = max(h.over, index)
	for i, at := range h.spans {
		switch {
		case i <= index:
			s.settle(at.last)
			delete(h.spans, i)
		case i == index+1:
			s.settle(at.first - 1)
		}
	}
	for i := range h.shown {
		if i <= index {
			delete(h.shown, i)
		}
	}
}

// settle drops audio that cannot be asked for again.
func (s *Session) settle(through int64) {
	s.mu.Lock()
	s.out.settle(through, time.Now())
	s.mu.Unlock()
}

// hearSpeech hands on a piece of a spoken result. After a resumption it may begin anew.
func (s *Session) hearSpeech(body []byte) error {
	header, audio, err := wire.ReadBinary(body)
	if err != nil {
		return unreadable(err)
	}
	if header.Kind != wire.KindTTS {
		return nil
	}
	format, first := s.heard.voices.first(&header)
	if !first {
		return nil
	}
	return s.tell(SpeechChunk{
		JobID: header.JobID, AttemptID: header.AttemptID, Chunk: header.Chunk, Last: header.Last, Format: format, Audio: audio,
	}, len(body))
}
