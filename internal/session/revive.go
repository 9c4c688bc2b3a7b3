package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// revive makes a session anew whose instance is gone, from what it left in the store. Its sound is lost: of utterances
// without a terminal message it is asked for once more, cut where it was cut.
func (r *Rooms) revive(ctx context.Context, p *ResumeParams) (*Session, error) {
	for range triesToTake {
		s, err := r.take(ctx, p)
		if s != nil || err != nil {
			return s, err
		}
		if other := r.named(p.key()); other != nil {
			return other, nil // somebody else was faster
		}
	}
	return nil, wire.Errorf(wire.SchedulerDependencyDown, "the session is being resumed elsewhere: try again").RetryIn(time.Second)
}

// triesToTake is how often a session is taken over whose owner goes on with it meanwhile.
const triesToTake = 3

// take tries to take a session over as it is now. It returns none when it has changed meanwhile.
func (r *Rooms) take(ctx context.Context, p *ResumeParams) (*Session, error) {
	st, err := r.store.LoadSession(ctx, p.key())
	if err != nil {
		return nil, r.down(err)
	}
	if st.Epoch == 0 {
		return nil, unknown(p.Session)
	}
	var v saved
	if err := json.Unmarshal(st.Body, &v); err != nil {
		return nil, fmt.Errorf("the state of session %s cannot be read: %w", p.Session, err)
	}
	if !p.allowed(v.Hash) {
		return nil, notItsToken()
	}
	s, err := r.restore(ctx, core.SessionRef{SessionKey: p.key(), Incarnation: st.Incarnation}, &v)
	if err != nil {
		return nil, r.down(err)
	}
	if p.anew && (s.turns > 0 || s.cut > 0) {
		return nil, taken() // and whoever has it keeps it
	}
	s.claim.Epoch = st.Epoch + 1
	held, err := r.store.SaveSession(ctx, store.SaveParams{
		Session: s.ref, Claim: s.claim, Take: true, Seen: st.Body, Body: st.Body, Keep: r.cfg.keep(), Known: s.known,
	})
	if err != nil {
		return nil, r.down(err)
	}
	if !held || !r.enter(s) {
		return nil, nil
	}
	r.counts.Sessions.WithLabelValues("revived").Inc()
	r.write(ctx, st.Owner, kindMoved, tellFor, movedLetter{s.ref, s.claim.Epoch})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.again {
		s.expect(u)
	}
	s.again = slices.DeleteFunc(s.again, func(u *utterance) bool { return u.told })
	if len(s.again) > 0 {
		s.counted = min(s.counted, s.again[0].first-1)
	}
	s.guard()
	return s, nil
}

// restore makes a session of what was saved of it and of what has come into its outbox since.
func (r *Rooms) restore(ctx context.Context, ref core.SessionRef, v *saved) (*Session, error) {
	s := r.make(ref)
	s.hash, s.set, s.turns, s.cut, s.past = v.Hash, v.Settings, v.Turns, v.Cut, v.Past
	s.totals = wire.SessionEnded{Results: v.Results, Errors: v.Errors, AudioMS: v.AudioMS}
	known, err := r.last(ctx, ref, v.Results+v.Errors, s.count)
	if err != nil {
		return nil, err
	}
	early, err := r.store.Early(ctx, ref)
	if err != nil {
		return nil, err
	}
	s.sent, s.known, s.counted = known, known, v.Cut
	s.turns = max(s.turns, known) // the store may have forgotten the last state, and not what came after it
	// The utterance that was open comes from its beginning, and what was said meanwhile with it, all at once.
	s.pace.credit = v.Settings.Longest + r.cfg.Resume
	for _, c := range v.Cuts {
		if c.Turn <= known {
			continue
		}
		u := &utterance{session: s, id: c.ID, request: c.Request, direction: c.Direction, turn: c.Turn, reason: c.Reason, revived: true}
		u.first, u.last, u.voiced = c.First, c.Last, true
		u.told = slices.Contains(early, c.Turn-1) // it has ended, and only those before it have not
		u.spec = s.spec(u, c.Options, c.AudioMS)
		u.job = u.spec.Job()
		s.again = append(s.again, u)
	}
	sortTurns(s.again)
	return s, nil
}

// count adds a durable message to the totals.
func (s *Session) count(m store.Message) {
	if !isResult(m.Body) {
		s.totals.Errors++
		return
	}
	s.totals.Results++
	var in said
	_ = json.Unmarshal(m.Body, &in) // it was written by one of us
	s.totals.AudioMS += in.Usage.AudioMS
}

// last goes through the durable messages of a session after one of them, and returns which is the last.
func (r *Rooms) last(ctx context.Context, ref core.SessionRef, after int64, each func(store.Message)) (int64, error) {
	for {
		some, err := r.store.Read(ctx, store.ReadParams{Session: ref, After: after, Limit: readAtOnce})
		if err != nil || len(some) == 0 {
			return after, err
		}
		for _, m := range some {
			each(m)
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
	if len(w.Data) > 0 && !u.told {
		if u.bytes+len(w.Data) > s.rooms.cfg.PerTurn {
			return wire.Errorf(wire.PayloadTooLarge, "the utterance is larger than %d bytes", s.rooms.cfg.PerTurn)
		}
		if !s.rooms.Sounds.take(len(w.Data)) {
			return wire.Errorf(wire.RateLimited, "this scheduler holds as much audio as it can: try again, or try another instance")
		}
		u.frames, u.bytes = append(u.frames, append([]byte(nil), w.Data...)), u.bytes+len(w.Data)
	}
	if s.counted == u.last {
		s.again = s.again[1:]
		if u.told {
			return nil // its node had it all along
		}
		s.keep(u)
		s.rooms.background(func(ctx context.Context) { s.rooms.place(ctx, u) })
	}
	return nil
}
