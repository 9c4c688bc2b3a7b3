package session

import (
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// utteranceStart describes an utterance that its client opens.
type utteranceStart struct {
	id      string
	src     core.Lang
	request core.RequestID
	// traceparent is the trace context of the client; empty: none.
	traceparent string
}

// begin opens an utterance.
func (in *intake) begin(id string, src core.Lang, request core.RequestID) *wire.Error {
	s := in.session
	direction, e := s.settings.direction(src)
	if e != nil {
		return e
	}
	in.open = &utterance{session: s, id: id, src: src, request: request, direction: direction, options: s.options,
		speech: newSpeechQueue()}
	return nil
}

// openNext handles an utterance_start. An utterance that is open is committed.
func (in *intake) openNext(start *utteranceStart) *wire.Error {
	in.commit(utteranceEnd{reason: reasonManual, through: in.received})
	if closed := in.closed.find(start.id); closed != nil && !closed.Final && closed.Turn > 0 {
		in.beginPart(closed)
		return nil
	}
	if e := in.begin(start.id, start.src, start.request); e != nil {
		return e
	}
	in.open.traceparent = start.traceparent
	return nil
}

// beginPart opens a further part of an utterance that has ended. If that utterance had nothing but silence and made no job,
// beginPart opens it again.
func (in *intake) beginPart(c *closedUtterance) {
	s := in.session
	direction, _ := s.settings.direction(c.Src) // it was one of the session's languages, and those do not change
	in.open = &utterance{session: s, id: c.Name, src: c.Src, request: c.Request, direction: direction, options: s.options,
		speech: newSpeechQueue()}
	if c.Turn == 0 {
		return
	}
	part := *c
	part.Parts++
	in.open.request, in.open.continues = core.RequestID(string(c.Request)+partSeparator+strconv.Itoa(part.Parts)), &part
}

// checkBegin returns the reason why no utterance can begin now, or nil.
func (in *intake) checkBegin() *wire.Error {
	if n := len(in.session.outbox.pending); n >= maxPendingFactor*in.session.registry.cfg.MaxUnanswered {
		return wire.Errorf(wire.RateLimited, "%d utterances wait for their results: send fewer at once", n).RetryIn(time.Second)
	}
	if !in.startLimit.Allow() {
		return wire.Errorf(wire.RateLimited, "at most %d utterances may begin each second",
			in.session.registry.cfg.UtteranceRate).RetryIn(time.Second)
	}
	return nil
}
