package session

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Revocations says which sessions are revoked. A *revocation.Follower does.
type Revocations interface {
	// SessionRevoked returns the entry by which a session is revoked that started at a time, on an instance that knew the entries up to
	// a time; nil when there is none.
	SessionRevoked(key core.SessionKey, started, known time.Time) *store.Revocation
	// Latest returns the time of the latest entry that this instance knows.
	Latest() time.Time
}

// Info describes a session of this instance.
type Info struct {
	core.SessionKey
	Caller     *auth.Principal // of its last connection; nil: it is not known
	Langs      [2]core.Lang
	Started    time.Time
	Known      time.Time // the time of the latest revocation that was known where it started
	Connected  bool
	Utterances int64 // that were committed
	Pending    int   // utterances of these whose terminal message was not sent

	Activity Activity // only in lists
}

// info describes the session. The caller holds the lock.
func (s *Session) info() *Info {
	return &Info{
		SessionKey: s.ref.SessionKey, Caller: s.caller, Langs: s.settings.Langs, Started: s.started, Known: s.known,
		Connected:  s.conn != nil,
		Utterances: s.turns, Pending: len(s.outbox.pending),
	}
}

// List describes the sessions of this instance that have not ended, in any order.
func (r *Registry) List() []*Info {
	var list []*Info
	for _, s := range r.all() {
		s.mu.Lock()
		if !s.finished && !s.hasEnded() {
			info := s.info()
			info.Activity = s.describeActivity()
			list = append(list, info)
		}
		s.mu.Unlock()
	}
	return list
}

// Exists reports whether there is a session of a name, on any instance, that could be resumed.
func (r *Registry) Exists(ctx context.Context, key core.SessionKey) (bool, error) {
	if r.find(key) != nil {
		return true, nil
	}
	stored, err := r.store.LoadSession(ctx, key)
	return stored.Epoch > 0, err
}

// Verdict says whether a session is to be terminated: with an error and the code with which its connection is closed, or a nil error.
type Verdict func(*Info) (wire.CloseCode, *wire.Error)

// TerminateIf terminates the sessions of this instance for which the verdict has an error, and returns how many.
func (r *Registry) TerminateIf(verdict Verdict) (terminated int) {
	for _, s := range r.all() {
		if s.terminateIf(verdict) {
			terminated++
		}
	}
	return terminated
}

// SetCaller records that the client of the connection has another credential.
func (c *Connection) SetCaller(caller *auth.Principal) {
	_ = c.handle(func(s *Session) *wire.Error {
		s.caller = caller
		return nil
	})
}

// TerminateIf terminates the session of the connection if the verdict has an error.
func (c *Connection) TerminateIf(verdict Verdict) { c.session.terminateIf(verdict) }

// terminateIf ends the session here and for good: its pending jobs are cancelled, its connection is closed, and its state is dropped, so
// that it cannot be resumed anywhere.
func (s *Session) terminateIf(verdict Verdict) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return false
	}
	code, e := verdict(s.info())
	if e == nil {
		return false
	}
	s.registry.metrics.Events.WithLabelValues(telemetry.SessionTerminated).Inc()
	s.registry.endCount(s.ref)
	s.end.dropped = true
	for _, u := range s.outbox.pending {
		if !u.result.stored {
			s.cancelUtterance(u)
		}
	}
	if s.conn != nil {
		s.conn.Close(code, e)
	}
	s.finish()
	s.registry.background.Go(s.dropState)
	return true
}

// dropKeep is how long the state of a session is kept that is dropped: it replaces the state by one that expires at once.
const dropKeep = time.Millisecond

// dropState drops the state of a terminated session and its outbox, retrying until the store answers.
func (s *Session) dropState(ctx context.Context) {
	select {
	case s.saver.slot <- struct{}{}: // no save is in progress, and none follows
	case <-ctx.Done():
		return
	}
	defer func() { <-s.saver.slot }()
	s.mu.Lock()
	body, err := s.encodeState()
	s.mu.Unlock()
	if err != nil {
		return // it cannot have been saved either
	}
	storeBackoff.Retry(ctx, func() error {
		_, err := s.registry.store.SaveSession(ctx, store.SaveParams{Session: s.ref, Ownership: s.ownership, Body: body, Keep: dropKeep})
		return err
	})
}

// isRevoked reports whether a session is revoked, by its saved state.
func (c *Config) isRevoked(key core.SessionKey, state *savedSession) bool {
	return c.Revocations != nil && c.Revocations.SessionRevoked(key, state.Started, state.Known) != nil
}

// latestRevocation is the time of the latest revocation that is known where a session starts: to this instance, or to the one that minted
// the token of its client.
func (c *Config) latestRevocation(caller *auth.Principal) (latest time.Time) {
	if c.Revocations != nil {
		latest = c.Revocations.Latest()
	}
	if caller != nil && caller.Known.After(latest) {
		return caller.Known
	}
	return latest
}

// dropTries is how often the state of a revoked session is dropped while another instance writes it, too.
const dropTries = 5

// dropRevoked drops the stored state of a session if it is revoked: its instance is gone, or has not ended it yet. It reports whether the
// name is free.
func (r *Registry) dropRevoked(ctx context.Context, key core.SessionKey) (free bool, err error) {
	if r.cfg.Revocations == nil {
		return false, nil
	}
	for range dropTries {
		var revoked bool
		if free, revoked, err = r.tryDropRevoked(ctx, key); free || !revoked || err != nil {
			return free, err
		}
	}
	return false, nil
}

// tryDropRevoked is one try of dropRevoked. It reports whether the name is free, and if not, whether there is a revoked session of the
// name.
func (r *Registry) tryDropRevoked(ctx context.Context, key core.SessionKey) (free, revoked bool, err error) {
	stored, err := r.store.LoadSession(ctx, key)
	if err != nil {
		return false, false, r.storeDown(err)
	}
	if stored.Epoch == 0 {
		return true, false, nil // another instance has just dropped it
	}
	var state savedSession
	if err := json.Unmarshal(stored.Body, &state); err != nil {
		return false, false, fmt.Errorf("the state of session %s cannot be read: %w", key.Name, err)
	}
	if !r.cfg.isRevoked(key, &state) {
		return false, false, nil
	}
	held, err := r.store.SaveSession(ctx, store.SaveParams{
		Session:   core.SessionRef{SessionKey: key, Incarnation: stored.Incarnation},
		Ownership: store.Ownership{Owner: r.cfg.Instance, Epoch: stored.Epoch + 1}, TakeOver: true, Expected: stored.Body,
		Body: stored.Body, Keep: dropKeep,
	})
	if err != nil {
		return false, false, r.storeDown(err)
	}
	return run.Sleep(ctx, 2*dropKeep) && held, true, nil
}
