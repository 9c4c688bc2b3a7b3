package session

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// savedSession is the state of a session in the store. It has no text and no audio, and of the resume token only the hash.
type savedSession struct {
	TokenHash                string
	Started                  time.Time `json:",omitzero"`
	Known                    time.Time `json:",omitzero"` // the latest revocation that was known where it started
	Settings                 settings
	Options                  []core.Options // with which its pending utterances began, each once; the first is the current one
	Turns                    int64
	Assigned                 int64 // the last audio frame that was assigned to an utterance
	Acked                    int64 // the last durable message that the client has acknowledged
	Counted                  int64 // the last durable message that is in the totals, or was lost before it could be
	Results, Errors, AudioMS int64
	Closed                   closedUtterances
	LastPlaced               lastPlacement
	Reconnects               int64 `json:",omitempty"` // how often it was resumed
	Pending                  []savedUtterance
}

// savedUtterance is an utterance whose terminal message was not sent.
type savedUtterance struct {
	Turn, FirstSeq, LastSeq int64
	ID                      string
	Request                 core.RequestID
	Direction               core.Direction
	AudioMS                 int64
	Options                 int   // the index of its options in the session's
	TTS                     bool  // speech is required
	Continues               int64 // set only if this is a further part of another utterance: its turn
	Reason                  string
}

// encodeState returns the session's state as it is saved. The caller holds the lock.
func (s *Session) encodeState() ([]byte, error) {
	state := savedSession{
		TokenHash: s.tokenHash, Started: s.started, Known: s.known, Settings: s.settings, Turns: s.turns, Assigned: s.intake.assigned,
		Acked: s.outbox.acked, Counted: s.outbox.counted,
		Results: s.outbox.totals.Results, Errors: s.outbox.totals.Errors, AudioMS: s.outbox.totals.AudioMS, Closed: s.intake.closed,
		LastPlaced: s.lastPlaced,
		Reconnects: s.activity.reconnects,
	}
	index := map[*optionSet]int{s.options: 0}
	state.Options = append(state.Options, s.options.Options)
	for _, u := range s.outbox.pendingInOrder() {
		at, ok := index[u.options]
		if !ok {
			at = len(state.Options)
			index[u.options], state.Options = at, append(state.Options, u.options.Options)
		}
		state.Pending = append(state.Pending, savedUtterance{
			Turn: u.turn, FirstSeq: u.firstSeq, LastSeq: u.lastSeq, ID: u.id, Request: u.request, Direction: u.direction,
			AudioMS: u.spec.Utterance.AudioMS, Options: at, TTS: u.spec.Options.RequireTTS, Continues: u.spec.Utterance.Continues,
			Reason: u.reason,
		})
	}
	return json.Marshal(state)
}

// errSuperseded says that another instance has taken the session over, or that it was terminated.
var errSuperseded = errors.New("the session continues on another instance")

// saveInterval is the minimum time between two saves of changes that nothing waits for.
const saveInterval = 100 * time.Millisecond

// stateSaver saves the state of a session in the store, where another instance finds it when this one is gone. The session's
// mutex guards all but the slot.
type stateSaver struct {
	session *Session
	slot    chan struct{} // holds one element while the state is saved; acquired before the session's mutex, never while it is held

	version   int64     // of the session's state
	saved     int64     // the last version that was saved
	savedAt   time.Time // when that was
	scheduled bool      // a save is about to begin
}

// init prepares the saver of a new session.
func (v *stateSaver) init(s *Session, now time.Time) {
	v.session, v.savedAt, v.slot = s, now, make(chan struct{}, 1)
}

// markChanged records that the state has changed. It is saved in the background after a moment, once for all changes until
// then. The caller holds the lock.
func (v *stateSaver) markChanged() {
	v.version++
	if v.scheduled {
		return
	}
	v.scheduled = true
	s, wait := v.session, saveInterval-time.Since(v.savedAt)
	s.registry.background.Go(func(ctx context.Context) {
		if !run.Sleep(ctx, wait) {
			return
		}
		s.mu.Lock()
		v.scheduled = false // changes from now on need another save
		s.mu.Unlock()
		_ = v.save(ctx) // after an error the state is saved with the next change, or when it is renewed
	})
}

// save saves the session's state as it is now or later. Saves do not overlap: an older state never follows a newer one. A
// session that was taken over by another instance ends here.
func (v *stateSaver) save(ctx context.Context) error {
	s := v.session
	s.mu.Lock()
	wanted := v.version
	s.mu.Unlock()
	select {
	case v.slot <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-v.slot }()
	s.mu.Lock()
	if v.saved >= wanted {
		s.mu.Unlock()
		return nil
	}
	if s.end.dropped {
		s.mu.Unlock()
		return errSuperseded
	}
	body, err := s.encodeState()
	version, last, acked, keep := v.version, s.outbox.last, s.outbox.acked, s.registry.cfg.keep()
	if s.hasEnded() {
		keep = s.registry.cfg.Resume // a client that missed its end may resume it for so long
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	held, err := s.registry.store.SaveSession(ctx, store.SaveParams{
		Session: s.ref, Ownership: s.ownership, Body: body, Keep: keep, Known: last, Acked: acked,
	})
	if err != nil {
		return err
	}
	if !held {
		s.supersede()
		return errSuperseded
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := v.saved
	v.saved, v.savedAt = version, time.Now()
	s.announceCommitted(before)
	return nil
}

// renew saves the state again if it would expire soon.
func (v *stateSaver) renew() {
	if time.Since(v.savedAt).Seconds() >= v.session.registry.cfg.renewInterval().Seconds()*(1-checkJitter) {
		v.markChanged()
	}
}
