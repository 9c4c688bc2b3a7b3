package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// StartParams describes a new session.
type StartParams struct {
	ID      core.SessionID // empty: one is made
	Tenant  core.TenantID
	Caller  *auth.Principal
	Remote  string // the address of the client; empty: it is not known
	Langs   [2]core.Lang
	Src     core.Lang // empty: the first of Langs
	Tgt     core.Lang // empty: the other one
	Options core.Options
	Request *wire.SessionStart // the other fields of the request
}

// Start starts a session and reports that over its connection. A client that did not receive the answer may repeat the
// request, with the same resume token, until it sends audio.
func (r *Registry) Start(ctx context.Context, p StartParams, conn Conn) (*Connection, error) {
	if r.isDraining() {
		return nil, drainingError()
	}
	if p.ID == "" {
		p.ID = core.SessionID("session-" + uuid.Must(uuid.NewV7()).String())
	}
	s, e := r.prepare(&p)
	if e != nil {
		return nil, e
	}
	token := p.Request.ResumeToken
	if token == "" {
		token = rand.Text()
	}
	s.tokenHash = hashToken(token)
	s.ownership.Epoch, s.started, s.known = 1, time.Now(), r.cfg.latestRevocation(p.Caller)
	created, err := r.createWithin(ctx, s)
	if err != nil {
		return nil, err
	}
	if !created {
		if s, err = r.findStarted(ctx, &ResumeParams{Session: p.ID, Tenant: p.Tenant, Token: token, onlyUnused: true}); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Another repetition of the request may have been faster.
	if s.finished || s.end.requested || s.intake.open != nil || s.intake.received > 0 || s.turns > 0 || created && s.conn != nil {
		return nil, nameTaken()
	}
	r.metrics.Events.WithLabelValues(telemetry.SessionStarted).Inc()
	s.attach(conn, p.Caller, p.Remote)
	conn.Send(wire.SessionStarted{
		SessionID: string(s.ref.Name), ResumeToken: token, Langs: []string{string(s.settings.Langs[0]), string(s.settings.Langs[1])},
		SrcLang: string(s.settings.Src), Audio: s.settings.audio(), Segmentation: s.settings.segmentation(), Limits: r.cfg.limits(),
		KeepaliveMS: p.Request.KeepaliveMS,
	})
	return &Connection{s, conn, s.settings.Numbered}, nil
}

// prepare makes a session of a valid request.
func (r *Registry) prepare(p *StartParams) (*Session, *wire.Error) {
	s := newSession(r, core.SessionRef{
		SessionKey: core.SessionKey{Tenant: p.Tenant, Name: p.ID}, Incarnation: core.NewSessionIncarnation(),
	})
	format := p.Request.Audio.Format().OrDefault()
	if e := format.Check("audio"); e != nil {
		return nil, e
	}
	s.settings = settings{
		Langs: p.Langs, Src: p.Src, Format: format, Pause: r.cfg.Pause, MaxUtterance: r.cfg.MaxUtterance, Silence: r.cfg.Silence,
		Partials: p.Request.Partials, TTS: p.Request.TTS, Numbered: p.Request.Audio.Framing == wire.FramingNumbered,
	}
	if f := p.Request.Audio.Framing; f != "" && f != wire.FramingRaw && f != wire.FramingNumbered {
		return nil, wire.Invalid("audio.framing", "must be raw or numbered, not %q", f)
	}
	if e := s.setOptions(p.Options); e != nil {
		return nil, e
	}
	if s.settings.Src == "" {
		s.settings.Src = p.Langs[0]
	}
	direction, e := s.settings.direction("")
	switch {
	case e != nil:
		return nil, e
	case p.Tgt != "" && p.Tgt != direction.Tgt:
		return nil, wire.Invalid("tgt_lang", "must be %s, the other language of the session", direction.Tgt)
	}
	if e := s.settings.setSegmentation(&r.cfg, &p.Request.Segmentation); e != nil {
		return nil, e
	}
	return s, nil
}

// create saves a new session and adds it to the directory. It reports false if there is a session with its name. The save is
// retried: a reply that was lost must not block the name.
func (r *Registry) create(ctx context.Context, s *Session) (bool, error) {
	body, err := s.encodeState()
	if err != nil {
		return false, err
	}
	held := false
	for range takeOverTries {
		held, err = r.store.SaveSession(ctx,
			store.SaveParams{Session: s.ref, Ownership: s.ownership, TakeOver: true, Body: body, Keep: r.cfg.keep()})
		if err == nil {
			break
		}
	}
	if err != nil {
		return false, r.storeDown(err)
	}
	return held && r.add(s), nil
}

// findStarted finds the session that was started before with the same token: the answer to that request was lost.
func (r *Registry) findStarted(ctx context.Context, p *ResumeParams) (*Session, error) {
	s, err := r.findOwned(ctx, p.key())
	if err != nil {
		return nil, r.storeDown(err)
	}
	if s == nil {
		s, err = r.takeOver(ctx, p)
	}
	var e *wire.Error
	switch {
	case errors.As(err, &e) && e.Code != wire.Forbidden:
		return nil, err
	case err != nil, !p.authorized(s.tokenHash):
		return nil, nameTaken()
	}
	return s, nil
}

// hashToken is the hash of a resume token, which is kept in its place.
func hashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func nameTaken() *wire.Error {
	return wire.FieldErrorf(wire.Forbidden, "session_id", "there is a session of this name: resume it, or use another name")
}
