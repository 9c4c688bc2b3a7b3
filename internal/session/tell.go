package session

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// maxFresh bounds the durable messages of a session that are at hand; others are read from the outbox.
const maxFresh = wire.MaxFrame

// appended takes in that the terminal message of a turn is in the outbox, which now ends at seq. The message is nil when
// it is not at hand.
func (s *Session) appended(turn, seq int64, e *envelope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	if seq < s.known {
		s.change() // the store has forgotten messages that were sent: it is told where the count goes on
	}
	s.known = max(s.known, seq)
	if turn > s.sent && e != nil && s.fresh[turn] == nil && s.freshBytes+len(e.message) <= maxFresh {
		s.fresh[turn] = e
		s.freshBytes += len(e.message)
	}
	if u := s.turn[turn]; u != nil {
		u.told = true
		if e != nil {
			u.size = len(e.message)
		}
		s.drop(u)
		s.rooms.audio.Remove(u.job) // nobody needs it any more
	}
	s.catchUp()
}

// takeFresh takes a durable message that is at hand; nil when it is not.
func (s *Session) takeFresh(seq int64) *envelope {
	e := s.fresh[seq]
	if e != nil {
		delete(s.fresh, seq)
		s.freshBytes -= len(e.message)
	}
	return e
}

// catchUp sends the durable messages that were not sent yet, in their order. Those that passed through here are at
// hand; others are read beside the caller.
func (s *Session) catchUp() {
	for s.link != nil && s.sent < s.known {
		e := s.takeFresh(s.sent + 1)
		if e == nil {
			break
		}
		s.deliver(s.sent+1, e)
	}
	if s.link != nil && s.sent < s.known && !s.reading {
		s.reading = true
		s.rooms.background(s.read)
	}
	s.farewell()
}

// deliver sends one durable message.
func (s *Session) deliver(seq int64, e *envelope) {
	s.takeFresh(seq)
	s.sent = seq
	u := s.turn[seq]
	if u == nil {
		u = s.sentBefore(seq)
	}
	s.sendResult(u, e)
	if u == nil || u.ended {
		return
	}
	delete(s.turn, seq)
	s.tallied = max(s.tallied, seq)
	u.told, u.ended = true, true
	s.drop(u)
	s.rooms.counts.ObserveOutcome(u.since, e.Result)
	if e.Result {
		s.totals.Results++
		s.totals.AudioMS += u.spec.Utterance.AudioMS
	} else {
		s.totals.Errors++
	}
	if e.Speech != speechFollows {
		u.voice.lose(s.rooms.audio) // it was of an attempt that was given up
		s.forget(u)
		return
	}
	u.voice.moved = time.Now()
	if u.stands = e.Attempt; u.voice.attempt != u.stands {
		u.voice.restart(s.rooms.audio, u.stands)
		return
	}
	s.voiced(u)
}

// sentBefore finds an utterance whose result was sent over an earlier connection and whose speech may still come; nil
// when there is none.
func (s *Session) sentBefore(seq int64) *utterance {
	for _, u := range s.spoken {
		if u.turn == seq {
			return u
		}
	}
	return nil
}

// sendResult sends a terminal message with what it says of its speech: that it follows only if it can.
func (s *Session) sendResult(u *utterance, e *envelope) {
	switch {
	case e.Speech != speechFollows:
		s.link.SendText(e.text(e.Speech, wire.AudioFormat{}))
	case u == nil || u.voice.isLost(e.Attempt):
		s.link.SendText(e.text(speechLost, wire.AudioFormat{}))
	default:
		s.link.SendText(e.text(speechFollows, u.voice.formatOf(e)))
	}
}

// forget lets go of an utterance of which nothing more can come.
func (s *Session) forget(u *utterance) {
	delete(s.spoken, u.job)
	s.rooms.forget(u)
}

// readAtOnce is how many durable messages are read at once.
const readAtOnce = 64

// read fetches durable messages that others have appended, or that are wanted again.
func (s *Session) read(ctx context.Context) {
	for retry := storeBackoff; ; {
		s.mu.Lock()
		after := s.sent
		if s.link == nil || s.over || after >= s.known {
			s.reading = false
			s.farewell()
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		messages, err := s.rooms.store.Read(ctx, store.ReadParams{Session: s.ref, After: after, Limit: readAtOnce})
		if err != nil {
			s.rooms.log.Warn("the store did not answer", "operation", "outbox", "error", err)
			if !retry.Wait(ctx) {
				return
			}
			continue
		}
		s.mu.Lock()
		s.deliverAll(messages)
		if len(messages) == 0 {
			s.deliverLost(s.known)
		}
		s.mu.Unlock()
	}
}

// deliverAll sends durable messages that were read.
func (s *Session) deliverAll(messages []store.OutboxMessage) {
	for _, m := range messages {
		if s.link == nil || m.Seq <= s.sent {
			continue
		}
		s.deliverLost(m.Seq - 1)
		e, err := openEnvelope(m.Body)
		if err != nil {
			s.rooms.log.Error("a durable message is skipped", "session_id", s.ref.Name, "error", err)
			s.deliverLost(m.Seq)
			continue
		}
		s.deliver(m.Seq, e)
	}
}

// deliverLost goes on after durable messages that are gone before they were sent, because the outbox was too full or the
// store has forgotten them. Each of their utterances ends with an error.
func (s *Session) deliverLost(to int64) {
	for seq := s.sent + 1; seq <= to && s.link != nil; seq++ {
		u := s.turn[seq]
		if u == nil {
			continue
		}
		e, err := sealFailure(&u.spec, u.job, wire.Errorf(wire.Internal, "this utterance had ended, and its result was lost before it could be sent"), core.ReasonNone)
		if err != nil {
			s.rooms.log.Error("a message could not be written", "job_id", u.job, "error", err)
			continue
		}
		s.deliver(seq, e)
	}
	if s.link != nil {
		s.skip(max(s.sent, to))
	}
}

// skip goes on after durable messages that are gone: there is nothing to wait for.
func (s *Session) skip(to int64) {
	s.sent, s.tallied = to, max(s.tallied, to)
	for seq := range s.fresh {
		if seq <= to {
			s.takeFresh(seq)
		}
	}
	for turn, u := range s.turn {
		if turn <= to {
			delete(s.turn, turn)
			u.told, u.ended = true, true
			u.stopWaiting()
			s.drop(u)
			s.forget(u)
		}
	}
}

// confirm takes in that the client has the durable messages up to a position.
func (s *Session) confirm(seq int64) {
	if seq = min(seq, s.sent); seq <= s.confirmed {
		return
	}
	s.confirmed = seq
	s.change()
}

// peek looks whether there are durable messages of which no message came.
func (s *Session) peek(ctx context.Context) {
	s.mu.Lock()
	after := s.known
	s.mu.Unlock()
	last, err := s.rooms.last(ctx, s.ref, after, func(store.OutboxMessage) {})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
	if err == nil && !s.over {
		s.known = max(s.known, last)
		s.catchUp()
	}
}

// Partial passes on what a node has so far, if the session is here. Whether the node has the job was decided before.
func (d *Directory) Partial(p *wire.JobPartial) {
	u := d.utterance(core.JobID(p.JobID))
	if u == nil {
		return
	}
	s := u.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.ended || s.link == nil || !s.set.Partials || p.AttemptID < u.attempt {
		return
	}
	if p.AttemptID > u.attempt {
		u.attempt, u.rev = p.AttemptID, 0
	}
	if p.Rev <= u.rev && u.rev > 0 {
		return
	}
	u.rev = p.Rev
	s.rooms.counts.Messages.WithLabelValues("partial").Inc()
	s.link.Send(wire.Partial{
		JobID: p.JobID, AttemptID: p.AttemptID, UtteranceIndex: u.turn - 1, Rev: p.Rev, Stage: p.Stage,
		TextSrc: p.TextSrc, TextTgt: p.TextTgt,
	})
}
