package session

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// revive makes a session anew whose instance is gone, from what it left in the store. Its sound is lost: of utterances
// without a terminal message it is asked for once more, cut where it was cut.
func (r *Rooms) revive(ctx context.Context, p *ResumeParams) (*Session, error) {
	body, err := r.store.LoadSession(ctx, p.Session)
	if err != nil {
		return nil, r.down(err)
	}
	if body == nil {
		return nil, unknown(p.Session)
	}
	var v saved
	if err := json.Unmarshal(body, &v); err != nil {
		return nil, fmt.Errorf("the state of session %s cannot be read: %w", p.Session, err)
	}
	known, err := r.last(ctx, p.Session, p.Last)
	if err != nil {
		return nil, r.down(err)
	}
	s := r.make(p.Session, v.Tenant)
	s.hash, s.set, s.turns, s.cut = v.Hash, v.Settings, v.Turns, v.Cut
	s.totals = wire.SessionEnded{Results: v.Results, Errors: v.Errors, AudioMS: v.AudioMS}
	s.sent, s.known, s.counted = known, known, v.Cut
	for _, c := range v.Cuts {
		if c.Turn <= known {
			continue
		}
		u := &utterance{session: s, id: c.ID, request: c.Request, direction: c.Direction, turn: c.Turn, reason: c.Reason, revived: true}
		u.first, u.last, u.voiced = c.First, c.Last, true
		u.job = core.JobIDFor(s.tenant, u.request)
		u.spec = s.spec(u, c.Options, c.AudioMS)
		s.again = append(s.again, u)
	}
	sortTurns(s.again)
	if len(s.again) > 0 {
		s.counted = min(s.counted, s.again[0].first-1)
	}
	if !r.enter(s) {
		if other := r.session(p.Session); other != nil {
			return other, nil // somebody else was faster
		}
		return nil, unknown(p.Session)
	}
	r.counts.Sessions.WithLabelValues("revived").Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.again {
		s.expect(u)
	}
	s.guard(r.cfg.Resume)
	return s, nil
}

// last is the last durable message of a session, if after is one of them.
func (r *Rooms) last(ctx context.Context, id core.SessionID, after int64) (int64, error) {
	for {
		some, err := r.store.Read(ctx, store.ReadParams{Session: id, After: after, Limit: readAtOnce})
		if err != nil || len(some) == 0 {
			return after, err
		}
		after = some[len(some)-1].Seq
	}
}

// rehear takes in sound of which it was decided before where it belongs. What belongs to an utterance that has ended,
// or to none, is dropped.
func (s *Session) rehear(w *Words) *wire.Error {
	for len(s.again) > 0 && s.counted > s.again[0].last {
		s.again = s.again[1:]
	}
	if len(s.again) == 0 || s.counted < s.again[0].first {
		return nil
	}
	u := s.again[0]
	if len(w.Data) > 0 {
		if !s.rooms.Sounds.take(len(w.Data)) {
			return wire.Errorf(wire.RateLimited, "this scheduler holds as much audio as it can: try again, or try another instance")
		}
		u.frames, u.bytes = append(u.frames, append([]byte(nil), w.Data...)), u.bytes+len(w.Data)
	}
	if s.counted == u.last {
		s.again = s.again[1:]
		s.keep(u)
		s.rooms.background(func(ctx context.Context) { s.rooms.place(ctx, u) })
	}
	return nil
}
