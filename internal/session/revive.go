package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// revive makes a session anew whose instance is gone, from what it left in the store. Its sound is lost: of utterances
// without a terminal message it is asked for once more, cut where it was cut.
func (r *Registry) revive(ctx context.Context, p *ResumeParams) (*Session, error) {
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
func (r *Registry) take(ctx context.Context, p *ResumeParams) (*Session, error) {
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
		Session: s.ref, Ownership: s.claim, TakeOver: true, Expected: st.Body, Body: st.Body, Keep: r.cfg.keep(), Known: s.known,
	})
	if err != nil {
		return nil, r.down(err)
	}
	if !held || !r.enter(s) {
		return nil, nil
	}
	r.counts.Events.WithLabelValues("revived").Inc()
	r.write(ctx, st.Owner, kindMoved, tellFor, movedLetter{s.ref, s.claim.Epoch})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, nil // another instance took it at once: nothing is kept for it here
	}
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
func (r *Registry) restore(ctx context.Context, ref core.SessionRef, v *saved) (*Session, error) {
	s := r.make(ref)
	s.hash, s.set, s.turns, s.cut, s.closed, s.confirmed = v.Hash, v.Settings, v.Turns, v.Cut, v.Closed, v.Confirmed
	options := s.restoreOptions(v.Options)
	s.totals = wire.SessionEnded{Results: v.Results, Errors: v.Errors, AudioMS: v.AudioMS}
	known, err := r.last(ctx, ref, v.Tallied, s.count)
	if err != nil {
		return nil, err
	}
	early, err := r.store.Waiting(ctx, ref)
	if err != nil {
		return nil, err
	}
	s.sent, s.known, s.tallied, s.counted = known, known, known, v.Cut
	s.turns = max(s.turns, known) // the store may have forgotten the last state, and not what came after it
	// The utterance that was open comes from its beginning, and what was said meanwhile with it, all at once.
	s.pace.credit = v.Settings.Longest + r.cfg.Resume
	for _, c := range v.Cuts {
		if c.Turn <= known {
			continue
		}
		if c.Options < 0 || c.Options >= len(options) {
			return nil, fmt.Errorf("utterance %d has options %d of %d", c.Turn, c.Options, len(options))
		}
		u := &utterance{
			session: s, id: c.ID, request: c.Request, direction: c.Direction, options: options[c.Options], turn: c.Turn,
			reason: c.Reason, revived: true,
		}
		u.first, u.last, u.voiced = c.First, c.Last, true
		u.told = slices.Contains(early, c.Turn-1) // it has ended, and only those before it have not
		if c.Continues > 0 {
			u.continues = &closedUtterance{Turn: c.Continues}
		}
		asked := u.options.Options
		asked.RequireTTS = c.TTS
		u.spec = s.spec(u, asked, c.AudioMS)
		u.job = u.spec.Job()
		s.again = append(s.again, u)
	}
	sortTurns(s.again)
	return s, nil
}

// count adds a durable message to the totals.
func (s *Session) count(m store.OutboxMessage) {
	e, err := openEnvelope(m.Body)
	if err != nil || !e.Result {
		s.totals.Errors++
		return
	}
	s.totals.Results++
	s.totals.AudioMS += e.AudioMS
}

// last goes through the durable messages of a session after one of them, and returns which is the last.
func (r *Registry) last(ctx context.Context, ref core.SessionRef, after int64, each func(store.OutboxMessage)) (int64, error) {
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

// rehear takes in audio of which it was decided before where it belongs. What belongs to an utterance that has ended,
// or to none, is dropped.
func (s *Session) rehear(w *AudioFrame) *wire.Error {
	for len(s.again) > 0 && s.counted > s.again[0].last {
		s.again = s.again[1:]
	}
	if len(s.again) == 0 || s.counted < s.again[0].first {
		s.skipMissing()
		return nil
	}
	u := s.again[0]
	// A frame within its bounds that names another utterance was not part of it the first time.
	if own := w.Utterance == "" || w.Utterance == u.id; own && len(w.Data) > 0 && !u.told {
		begins := w.Data
		if len(u.pieces) > 0 {
			begins = u.pieces[0].data
		}
		if e := audio.CheckFrame(&s.set.Format, begins, w.Data); e != nil {
			return e
		}
		if e := s.reserveAudio(u, len(w.Data)); e != nil {
			return e
		}
		first, last := u.first, u.last
		u.append(piece{seq: s.counted, data: slices.Clone(w.Data)})
		u.first, u.last = first, last
	}
	if s.counted < u.last {
		return nil
	}
	s.again = s.again[1:]
	s.skipMissing()
	if u.told {
		s.drop(u)
		return nil // its node had it all along
	}
	s.keep(u)
	s.queue(u)
	s.rooms.background(func(ctx context.Context) { s.rooms.place(ctx, u) })
	return nil
}

// awaitsAudio reports whether the audio of an utterance that was committed elsewhere is of use.
func (u *utterance) awaitsAudio() bool { return !u.told && !u.noAudio }

// skipEnded goes on with the first audio that is needed again, or with what was not committed. Its caller says so to the
// client before that sends any.
func (s *Session) skipEnded() {
	s.again = slices.DeleteFunc(s.again, func(u *utterance) bool { return !u.awaitsAudio() })
	s.counted = max(s.counted, s.nextNeeded())
}

// nextNeeded is the last frame before the first that is needed again, or before what was not committed.
func (s *Session) nextNeeded() int64 {
	if len(s.again) > 0 {
		return s.again[0].first - 1
	}
	return s.cut
}

// mayGoOnAfter reports whether the client may leave out the frames up to one: of those that were committed, no utterance
// needs them any more.
func (s *Session) mayGoOnAfter(seq int64) bool {
	return seq <= s.cut && !slices.ContainsFunc(s.again, func(u *utterance) bool { return u.awaitsAudio() && u.first <= seq })
}

// skipMissing goes on after an utterance whose audio the client does not have any more, once it has come to it: with the
// next utterance whose audio is needed, or with what was not committed.
func (s *Session) skipMissing() {
	if len(s.again) == 0 || !s.again[0].noAudio || s.counted < s.again[0].first-1 {
		return
	}
	for len(s.again) > 0 && s.again[0].noAudio {
		s.again = s.again[1:]
	}
	s.counted = max(s.counted, s.nextNeeded())
	s.acknowledge(true) // so that a client whose frames have no numbers knows where to go on
}
