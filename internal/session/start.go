package session

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// StartParams describes a new session.
type StartParams struct {
	ID      core.SessionID // empty: one is made
	Tenant  core.TenantID
	Langs   [2]core.Lang
	Src     core.Lang // empty: the first of them
	Options core.Options
	Request *wire.SessionStart // the rest of what was asked for
}

// Start begins a conversation and says so on its link.
func (r *Registry) Start(ctx context.Context, p StartParams, link Conn) (*Connection, error) {
	if r.isLeaving() {
		return nil, leaving()
	}
	if p.ID == "" {
		p.ID = core.SessionID("session-" + uuid.Must(uuid.NewV7()).String())
	}
	s := r.make(core.SessionRef{
		SessionKey: core.SessionKey{Tenant: p.Tenant, Name: p.ID}, Incarnation: core.NewSessionIncarnation(),
	})
	format := p.Request.Audio.Format().OrDefault()
	e := format.Check("audio")
	if e != nil {
		return nil, e
	}
	s.set = settings{
		Langs: p.Langs, Src: p.Src, Format: format, Pause: r.cfg.Pause, Longest: r.cfg.MaxUtterance, Silence: r.cfg.Silence,
		Partials: p.Request.Partials, TTS: p.Request.TTS, Numbered: p.Request.Audio.Framing == wire.FramingNumbered,
	}
	if f := p.Request.Audio.Framing; f != "" && f != wire.FramingRaw && f != wire.FramingNumbered {
		return nil, wire.Invalid("audio.framing", "must be raw or numbered, not %q", f)
	}
	if e := s.setOptions(p.Options); e != nil {
		return nil, e
	}
	if s.set.Src == "" {
		s.set.Src = p.Langs[0]
	}
	if _, ok := s.set.direction(s.set.Src); !ok {
		return nil, wire.Invalid("src_lang", "must be one of the session's languages")
	}
	if e := s.set.segment(&r.cfg, &p.Request.Segmentation); e != nil {
		return nil, e
	}
	token := p.Request.ResumeToken
	if token == "" {
		token = rand.Text()
	}
	s.hash = hashOf(token)
	s.claim.Epoch = 1
	body, err := s.state()
	if err != nil {
		return nil, err
	}
	held := false
	for range triesToTake { // the same may be said again: a reply that was lost must not block the name
		held, err = r.store.SaveSession(ctx, store.SaveParams{Session: s.ref, Ownership: s.claim, TakeOver: true, Body: body, Keep: r.cfg.keep()})
		if err == nil {
			break
		}
	}
	if err != nil {
		return nil, r.down(err)
	}
	made := held && r.enter(s)
	if !made {
		if s, err = r.startAgain(ctx, &ResumeParams{Session: p.ID, Tenant: p.Tenant, Token: token, anew: true}); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.ending || s.open != nil || s.counted > 0 || s.turns > 0 || made && s.link != nil { // said again meanwhile
		return nil, taken()
	}
	r.counts.Events.WithLabelValues("started").Inc()
	s.attach(link)
	link.Send(wire.SessionStarted{
		SessionID: string(s.ref.Name), ResumeToken: token, Langs: []string{string(s.set.Langs[0]), string(s.set.Langs[1])},
		SrcLang: string(s.set.Src), Audio: s.set.audio(), Segmentation: s.set.said(), Limits: r.cfg.limits(),
	})
	return &Connection{s, link, s.set.Numbered}, nil
}

// startAgain finds the session that was started before with the same token: the answer to that was lost.
func (r *Registry) startAgain(ctx context.Context, p *ResumeParams) (*Session, error) {
	s, err := r.here(ctx, p.key())
	if err != nil {
		return nil, r.down(err)
	}
	if s == nil {
		s, err = r.revive(ctx, p)
	}
	var e *wire.Error
	switch {
	case errors.As(err, &e) && e.Code != wire.Forbidden:
		return nil, err
	case err != nil, !p.allowed(s.hash):
		return nil, taken()
	}
	return s, nil
}

func taken() *wire.Error {
	return wire.FieldErrorf(wire.Forbidden, "session_id", "there is a session of this name: resume it, or use another name")
}
