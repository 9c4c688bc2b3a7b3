package session

import (
	"context"
	"log/slog"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Store is the part of the store that this package uses.
type Store interface {
	store.Outbox
	store.Sessions
}

// Directory holds the sessions of this instance, by name, and their utterances, by job. It delivers to them what jobs and
// nodes report. For a session of another instance it appends to the outbox and sends that instance a message.
type Directory struct {
	cfg     Config
	store   Store
	bus     *bus.Bus // nil: there are no other instances
	audio   *audio.Buffer
	metrics *telemetry.Sessions
	log     *slog.Logger

	mu         run.Mutex
	sessions   map[core.SessionKey]*Session
	utterances map[core.JobID]*utterance // that a result or speech may still follow
}

// NewDirectory makes an empty directory. The bus may be nil.
func NewDirectory(cfg Config, st Store, b *bus.Bus, buffer *audio.Buffer, metrics *telemetry.Sessions, log *slog.Logger) *Directory {
	return &Directory{
		cfg: cfg, store: st, bus: b, audio: buffer, metrics: metrics, log: log, mu: run.NewMutex("session_directory"),
		sessions: make(map[core.SessionKey]*Session), utterances: make(map[core.JobID]*utterance),
	}
}

// Len is how many sessions this instance has.
func (d *Directory) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sessions)
}

// find returns the session of this instance with a name, whatever its incarnation; nil when there is none.
func (d *Directory) find(key core.SessionKey) *Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[key]
}

// session returns one incarnation of a session; nil when this instance does not have it.
func (d *Directory) session(ref core.SessionRef) *Session {
	if s := d.find(ref.SessionKey); s != nil && s.ref == ref {
		return s
	}
	return nil
}

// all returns the sessions of this instance.
func (d *Directory) all() []*Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*Session, 0, len(d.sessions))
	for _, s := range d.sessions {
		all = append(all, s)
	}
	return all
}

// remove removes a session.
func (d *Directory) remove(s *Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sessions[s.ref.SessionKey] == s {
		delete(d.sessions, s.ref.SessionKey)
	}
}

// utterance returns the utterance of a job; nil when no session of this instance has it.
func (d *Directory) utterance(job core.JobID) *utterance {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.utterances[job]
}

// addUtterance makes an utterance known by its job.
func (d *Directory) addUtterance(u *utterance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.utterances[u.job] = u
}

// removeUtterance removes an utterance that neither a result nor speech can follow, with its audio.
func (d *Directory) removeUtterance(u *utterance) {
	d.mu.Lock()
	current := d.utterances[u.job] == u
	if current {
		delete(d.utterances, u.job)
	}
	d.mu.Unlock()
	if current {
		d.audio.Remove(u.job)
	}
}

// JobEnded implements dispatch.Outcomes: it appends the terminal message of a job to its session's outbox, and delivers it if
// this instance has the session.
func (d *Directory) JobEnded(ctx context.Context, job *core.Job, received time.Time) error {
	m, err := newTerminalMessage(job)
	if err != nil {
		return err
	}
	if m.Speech == speechFollows {
		m.At = d.cfg.Instance
	}
	trace, began := d.cfg.Tracer.Of(job.ID), time.Now()
	if trace.Sampled() {
		m.Span = trace.Attempt(job.Token).String()
	}
	_, err = d.append(ctx, store.Ownership{}, &job.Spec, m, received)
	if trace.Sampled() {
		traceAppend(trace, job.Token, began, len(m.body), err)
	}
	return err
}

// append appends the terminal message of an utterance to its session's outbox, unless another instance than by owns the
// session, and delivers it if this instance has the session. Its result was received here at a time; zero: it is not a node's result. It
// reports whether the message is the one that counts.
func (d *Directory) append(ctx context.Context, by store.Ownership, spec *core.Spec, m *terminalMessage, received time.Time) (stored bool,
	_ error) {
	turn := spec.Utterance.Turn
	body, err := m.encode()
	if err != nil {
		return false, err
	}
	a, err := d.store.Append(ctx, store.AppendParams{Session: spec.SessionRef(), Index: turn - 1, Body: body, Keep: d.cfg.keep(),
		MaxBytes: d.cfg.OutboxBytes, By: by})
	if err != nil {
		return false, err
	}
	if a.Exists {
		m = nil // the outbox has another message for this turn, which counts
	}
	s, local := d.session(spec.SessionRef()), a.Owner == "" || a.Owner == d.cfg.Instance
	if s != nil && (a.Refused || !local) {
		s.supersede()
	}
	switch {
	case a.Refused:
	case !local:
		ended := endedMessage{Session: spec.SessionRef(), Job: spec.Job(), Turn: turn, Seq: a.Seq}
		if m != nil && len(body) <= maxInlineBytes {
			ended.Message = body
		}
		d.notify(ctx, a.Owner, kindEnded, messageTTL, ended)
		if !received.IsZero() {
			d.observePath(telemetry.PathResult, spec.Session, spec.Job(), time.Since(received))
		}
	case s != nil:
		s.outbox.messageAppended(turn, a.Seq, m, received)
	}
	return m != nil && !a.Refused, nil
}

// DeliverPartial sends a partial result to its session, if this instance has it. The caller has checked that the node has the
// job.
func (d *Directory) DeliverPartial(p *wire.JobPartial) {
	u := d.utterance(core.JobID(p.JobID))
	if u == nil {
		return
	}
	s := u.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.result.sent || s.conn == nil || !s.settings.Partials || !u.partial.advance(p.AttemptID, p.Rev) {
		return
	}
	d.metrics.Messages.WithLabelValues(telemetry.MessagePartial).Inc()
	s.conn.Send(wire.SessionPartial{
		JobID: p.JobID, AttemptID: p.AttemptID, UtteranceIndex: u.turn - 1, Rev: p.Rev, Stage: p.Stage,
		TextSrc: p.TextSrc, TextTgt: p.TextTgt,
	})
}

// storeDown logs an error of the store and returns the error that is reported to the client.
func (d *Directory) storeDown(err error) *wire.Error {
	d.log.Warn("the store did not answer", "operation", "session", "error", err)
	return store.Unavailable()
}
