package session

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// ResumeParams says which session is resumed, and from where.
type ResumeParams struct {
	Session core.SessionID
	Tenant  core.TenantID
	Caller  *auth.Principal
	Remote  string // the address of the client; empty: it is not known
	Token   string
	Last    int64 // the last durable message that the client received

	KeepaliveMS int64 // what the answer says about keepalives, which the caller arranges

	onlyUnused bool // refuse a session that has received audio
}

func (p *ResumeParams) key() core.SessionKey {
	return core.SessionKey{Tenant: p.Tenant, Name: p.Session}
}

// authorized reports whether the client has the session's token.
func (p *ResumeParams) authorized(tokenHash string) bool {
	return subtle.ConstantTimeCompare([]byte(tokenHash), []byte(hashToken(p.Token))) == 1
}

const (
	// maxLostTurns is how many utterances the store may have lost that the client knows.
	maxLostTurns = 64
	// takeOverTries is how often a takeover is tried while the owner of the session changes it.
	takeOverTries = 3
)

// Resume continues a session over a new connection. The durable messages after the last that the client received are sent
// again, as far as they are still there.
func (r *Registry) Resume(ctx context.Context, p ResumeParams, conn Conn) (*Connection, error) {
	if r.isDraining() {
		return nil, drainingError()
	}
	s, err := r.findOwned(ctx, p.key())
	if err != nil {
		return nil, r.storeDown(err)
	}
	if s == nil {
		if s, err = r.takeOver(ctx, &p); err != nil {
			return nil, err
		}
	}
	if !p.authorized(s.tokenHash) {
		return nil, wrongToken()
	}
	var found storedMessages
	found.expected = s.lastMessage()
	if found.first, err = firstMessage(ctx, r.store, s.ref, p.Last); err != nil {
		return nil, r.storeDown(err)
	}
	// Another instance may have appended messages that the previous owner of the session has sent.
	if found.last, err = scanOutbox(ctx, r.store, s.ref, s.lastMessage(), nil); err != nil {
		return nil, r.storeDown(err)
	}
	c, e := s.resume(&p, found, conn)
	if e != nil {
		return nil, e
	}
	return c, nil
}

// storedMessages is which durable messages of a session a resume has found in the store.
type storedMessages struct {
	expected int64 // the last message that was known before the store was read
	first    int64 // the first after the one that the client received last; 0: none
	last     int64 // the last
}

// resume continues the session over a connection.
func (s *Session) resume(p *ResumeParams, found storedMessages, conn Conn) (*Connection, *wire.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return nil, unknownSession(p.Session)
	}
	o := &s.outbox
	o.last = max(o.last, found.last)
	if p.Last > o.last {
		// The store may have lost its last writes, of which the client has the messages. More than a few is a mistake.
		if p.Last > s.turns+maxLostTurns {
			return nil, wire.Invalid("last_seq", "no message after %d was sent", o.last)
		}
		o.last, s.turns = p.Last, max(s.turns, p.Last)
		o.skip(p.Last) // the client has the terminal messages
		s.saver.markChanged()
	}
	s.registry.metrics.Events.WithLabelValues(telemetry.SessionResumed).Inc()
	s.intake.pace.credit = max(s.intake.pace.credit, time.Since(s.monitor.lastReceived))
	s.activity.reconnects++
	s.attach(conn, p.Caller, p.Remote)
	o.sent = min(o.sent, p.Last) // messages that were sent and did not arrive are sent again
	recovered := o.rewind(p.Last, found)
	o.confirm(p.Last)
	s.intake.skipEnded()
	answer := wire.SessionResumed{
		SessionID: string(s.ref.Name), Recovered: recovered, NextAudioSeq: s.intake.received + 1, LastSeq: o.last,
		AudioNeeded: s.intake.neededAudio(),
		Speech:      s.speech.announced(p.Last), KeepaliveMS: p.KeepaliveMS,
	}
	if s.intake.open != nil {
		answer.OpenUtterance = s.intake.open.id
	}
	conn.Send(answer)
	s.intake.acked = s.intake.received
	s.announceCommitted(-1) // all that are saved
	s.speech.warnInterrupted(p.Last)
	s.speech.resume(p.Last)
	o.flush()
	return &Connection{s, conn, s.settings.Numbered}, nil
}

// rewind continues after the last message that the client received. It reports false if messages after that are lost; then it
// skips them.
func (o *outbox) rewind(received int64, found storedMessages) (recovered bool) {
	// Messages that were known before the store was read, and were not found, are lost. Later ones are found later.
	if found.first == received+1 || found.first == 0 && (found.expected <= received || o.cached[received+1] != nil) {
		return true
	}
	if found.first == 0 {
		o.skip(found.expected)
	} else {
		o.skip(found.first - 1)
	}
	return false
}

// findOwned returns a session that this instance owns; nil when it does not, or not any more.
func (r *Registry) findOwned(ctx context.Context, key core.SessionKey) (*Session, error) {
	s := r.find(key)
	if s == nil {
		return nil, nil
	}
	stored, err := r.store.LoadSession(ctx, key)
	if err != nil {
		return nil, err
	}
	if stored.Epoch > s.ownership.Epoch || stored.Epoch > 0 && stored.Incarnation != s.ref.Incarnation {
		s.supersede()
		return nil, nil
	}
	return s, nil
}

// takeOver takes a session of another instance over, from its state in the store. Its audio is lost: the client is asked to
// send that of utterances without a terminal message again, within the same bounds.
func (r *Registry) takeOver(ctx context.Context, p *ResumeParams) (*Session, error) {
	for range takeOverTries {
		s, err := r.tryTakeOver(ctx, p)
		if s != nil || err != nil {
			return s, err
		}
		if other := r.find(p.key()); other != nil {
			return other, nil // a concurrent request was faster
		}
	}
	return nil, wire.Errorf(wire.SchedulerDependencyDown, "the session is being resumed elsewhere: try again").RetryIn(time.Second)
}

// tryTakeOver takes a session over as it is now. It returns nil when the session has changed since it was loaded.
func (r *Registry) tryTakeOver(ctx context.Context, p *ResumeParams) (*Session, error) {
	stored, err := r.store.LoadSession(ctx, p.key())
	if err != nil {
		return nil, r.storeDown(err)
	}
	if stored.Epoch == 0 {
		return nil, unknownSession(p.Session)
	}
	var state savedSession
	if err := json.Unmarshal(stored.Body, &state); err != nil {
		return nil, fmt.Errorf("the state of session %s cannot be read: %w", p.Session, err)
	}
	if r.cfg.isRevoked(p.key(), &state) {
		return nil, unknownSession(p.Session)
	}
	if !p.authorized(state.TokenHash) {
		return nil, wrongToken()
	}
	s, err := restoreSession(ctx, r, core.SessionRef{SessionKey: p.key(), Incarnation: stored.Incarnation}, &state)
	if err != nil {
		return nil, r.storeDown(err)
	}
	if p.onlyUnused && (s.turns > 0 || s.intake.assigned > 0) {
		return nil, nameTaken() // its owner keeps it
	}
	s.ownership.Epoch = stored.Epoch + 1
	held, err := r.store.SaveSession(ctx, store.SaveParams{
		Session: s.ref, Ownership: s.ownership, TakeOver: true, Expected: stored.Body, Body: stored.Body, Keep: r.cfg.keep(),
		Known: s.outbox.last,
	})
	if err != nil {
		return nil, r.storeDown(err)
	}
	if !held || !r.add(s) {
		return nil, nil
	}
	r.metrics.Events.WithLabelValues(telemetry.SessionRevived).Inc()
	r.notify(ctx, stored.Owner, kindMoved, messageTTL, movedMessage{s.ref, s.ownership.Epoch})
	if !s.startRestored() {
		return nil, nil // another instance took it over at once
	}
	return s, nil
}

// startRestored starts the restored utterances of a session that was taken over. It reports false, and keeps nothing, if the
// session has moved on.
func (s *Session) startRestored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return false
	}
	for _, u := range s.intake.replays {
		s.expect(u)
	}
	s.intake.startReplays()
	s.monitor.schedule()
	return true
}

// restoreSession makes a session of its saved state and of the messages that were appended to its outbox since.
func restoreSession(ctx context.Context, r *Registry, ref core.SessionRef, state *savedSession) (*Session, error) {
	s := newSession(r, ref)
	s.tokenHash, s.settings, s.turns, s.lastPlaced = state.TokenHash, state.Settings, state.Turns, state.LastPlaced
	s.started, s.known, s.activity.reconnects = state.Started, state.Known, state.Reconnects
	in, o := &s.intake, &s.outbox
	in.assigned, in.received, in.closed = state.Assigned, state.Assigned, state.Closed
	o.acked, o.totals = state.Acked, wire.SessionEnded{Results: state.Results, Errors: state.Errors, AudioMS: state.AudioMS}
	last, err := scanOutbox(ctx, r.store, ref, state.Counted, o.countStored)
	if err != nil {
		return nil, err
	}
	waiting, err := r.store.Waiting(ctx, ref)
	if err != nil {
		return nil, err
	}
	o.sent, o.last, o.counted = last, last, last
	s.turns = max(s.turns, last) // the store may have lost the last state, and not the messages after it
	// The audio of the open utterance is sent from its beginning, with that of the time without a connection, all at once.
	in.pace.credit = state.Settings.MaxUtterance + r.cfg.Resume
	options := make([]*optionSet, len(state.Options))
	for i, saved := range state.Options {
		options[i] = &optionSet{saved}
	}
	if len(options) > 0 {
		s.options = options[0]
	}
	for i := range state.Pending {
		saved := &state.Pending[i]
		if saved.Turn <= last {
			continue
		}
		if saved.Options < 0 || saved.Options >= len(options) {
			return nil, fmt.Errorf("utterance %d has options %d of %d", saved.Turn, saved.Options, len(options))
		}
		u := s.restoreUtterance(saved, options[saved.Options])
		u.result.stored = slices.Contains(waiting, saved.Turn-1) // its message waits for those before it
		in.replays = append(in.replays, u)
	}
	sortByTurn(in.replays)
	return s, nil
}

// restoreUtterance makes a pending utterance of its saved state.
func (s *Session) restoreUtterance(saved *savedUtterance, options *optionSet) *utterance {
	u := &utterance{
		session: s, id: saved.ID, request: saved.Request, direction: saved.Direction, options: options, turn: saved.Turn,
		reason: saved.Reason, restored: true, speech: newSpeechQueue(),
	}
	u.firstSeq, u.lastSeq, u.hasSpeech = saved.FirstSeq, saved.LastSeq, true
	if saved.Continues > 0 {
		u.continues = &closedUtterance{Turn: saved.Continues}
	}
	jobOptions := options.Options
	jobOptions.RequireTTS = saved.TTS
	u.setSpec(jobOptions, saved.AudioMS)
	return u
}

func wrongToken() *wire.Error {
	return wire.FieldErrorf(wire.Forbidden, "resume_token", "it is not the token of this session")
}

func unknownSession(id core.SessionID) *wire.Error {
	return wire.FieldErrorf(wire.NotFound, "session_id", "no session %s is known, or not any more: start a new one", id)
}
