package session

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pause"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// appended takes in that the terminal message of a turn is in the outbox, which now ends at seq.
func (s *Session) appended(turn, seq int64, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	if seq < s.known {
		s.change() // the store has forgotten messages that were sent: it is told where the count goes on
	}
	s.known = max(s.known, seq)
	if turn > s.sent && body != nil {
		s.fresh[turn] = body
	}
	if u := s.turn[turn]; u != nil {
		u.told = true
		s.drop(u)
		s.rooms.Sounds.free(u.job) // nobody needs it any more
	}
	s.catchUp()
}

// catchUp sends the durable messages that were not sent yet, in their order. Those that passed through here are at
// hand; others are read beside the caller.
func (s *Session) catchUp() {
	for s.link != nil && s.sent < s.known {
		body, ok := s.fresh[s.sent+1]
		if !ok {
			break
		}
		s.deliver(s.sent+1, body)
	}
	if s.link != nil && s.sent < s.known && !s.reading {
		s.reading = true
		s.rooms.background(s.read)
	}
	s.farewell()
}

// deliver sends one durable message.
func (s *Session) deliver(seq int64, body []byte) {
	delete(s.fresh, seq)
	s.sent = seq
	s.link.SendText(body)
	u := s.turn[seq]
	if u == nil {
		return
	}
	delete(s.turn, seq)
	u.told, u.ended = true, true
	s.drop(u)
	s.rooms.counts.Answered(u.since, isResult(body))
	if isResult(body) {
		s.totals.Results++
		s.totals.AudioMS += u.spec.Utterance.AudioMS
	} else {
		s.totals.Errors++
	}
	if !bytes.Contains(body, speechFollows) {
		u.voice.hush(s.rooms.Sounds) // it was of an attempt that was given up
		s.forget(u)
		return
	}
	var m said
	_ = json.Unmarshal(body, &m) // it was written here
	if u.stands = m.AttemptID; u.voice.attempt != u.stands {
		u.voice.hush(s.rooms.Sounds)
		return
	}
	s.voiced(u)
}

// speechFollows is how a result says that speech follows it.
var speechFollows = []byte(`"tts":"follows"`)

// said is what is read of a durable message when it matters.
type said struct {
	AttemptID int        `json:"attempt_id"`
	Usage     wire.Usage `json:"usage"`
}

// forget lets go of an utterance of which nothing more can come.
func (s *Session) forget(u *utterance) {
	delete(s.spoken, u.job)
	s.rooms.forget(u)
}

// isResult tells a result from an error.
func isResult(body []byte) bool { return bytes.HasPrefix(body, []byte(`{"type":"result"`)) }

// readAtOnce is how many durable messages are read at once.
const readAtOnce = 64

// read fetches durable messages that others have appended, or that are wanted again.
func (s *Session) read(ctx context.Context) {
	for wait := firstPause; ; {
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
			if !pause.About(ctx, wait, 0.5) {
				return
			}
			wait = min(2*wait, mostPause)
			continue
		}
		s.mu.Lock()
		for _, m := range messages {
			if s.link != nil && m.Seq > s.sent {
				s.deliver(m.Seq, m.Body)
			}
		}
		if len(messages) == 0 {
			s.skip(s.known)
		}
		s.mu.Unlock()
	}
}

// skip goes on after durable messages that are gone: there is nothing to wait for.
func (s *Session) skip(to int64) {
	s.sent = to
	for turn, u := range s.turn {
		if turn <= to {
			delete(s.turn, turn)
			u.told, u.ended = true, true
			s.drop(u)
			s.forget(u)
		}
	}
}

// peek looks whether there are durable messages of which no word came.
func (s *Session) peek(ctx context.Context) {
	s.mu.Lock()
	after := s.known
	s.mu.Unlock()
	last, err := s.rooms.last(ctx, s.ref, after, func(store.Message) {})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
	if err == nil && !s.over {
		s.known = max(s.known, last)
		s.catchUp()
	}
}

// Partial passes on what a node has so far, if the session is here. Whether the node has the job was decided before.
func (r *Rooms) Partial(p *wire.JobPartial) {
	u := r.utterance(core.JobID(p.JobID))
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
