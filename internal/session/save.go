package session

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// errSuperseded says that the session is another instance's by now.
var errSuperseded = errors.New("the session goes on elsewhere")

// saveEvery is how often the state is saved at most for changes that nobody waits for.
const saveEvery = 100 * time.Millisecond

// change notes that the state has changed and has it saved beside the caller, in a moment, however often it changes
// meanwhile. The caller holds the lock.
func (s *Session) change() {
	s.version++
	if s.dirty {
		return
	}
	s.dirty = true
	wait := saveEvery - time.Since(s.renewed)
	s.rooms.background(func(ctx context.Context) {
		if !backoff.Sleep(ctx, wait) {
			return
		}
		s.mu.Lock()
		s.dirty = false // what changes from now on is not in what is saved
		s.mu.Unlock()
		_ = s.save(ctx) // what is not saved now is with the next change, or when it is renewed
	})
}

// save puts the session's state, as it is now or later, where it can be found when this instance is gone. One save is
// made at a time: an older one never comes after a newer. A session that was taken over ends here.
func (s *Session) save(ctx context.Context) error {
	s.mu.Lock()
	want := s.version
	s.mu.Unlock()
	select {
	case s.saving <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.saving }()
	s.mu.Lock()
	if s.stored >= want {
		s.mu.Unlock()
		return nil
	}
	body, err := s.state()
	version, known, confirmed, keep := s.version, s.known, s.confirmed, s.rooms.cfg.keep()
	if s.totals.SessionID != "" {
		keep = s.rooms.cfg.Resume // it has ended, and may be asked about for so long
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	held, err := s.rooms.store.SaveSession(ctx, store.SaveParams{
		Session: s.ref, Ownership: s.claim, Body: body, Keep: keep, Known: known, Acked: confirmed,
	})
	if err != nil {
		return err
	}
	if !held {
		s.superseded()
		return errSuperseded
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.stored
	s.stored, s.renewed = version, time.Now()
	s.announce(before)
	return nil
}

// superseded ends the session here because it goes on elsewhere. Its jobs go on, and its messages are in its outbox.
func (s *Session) superseded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.rooms.counts.Events.WithLabelValues("superseded").Inc()
	s.dismiss()
	s.finish()
}
