package session

import (
	"context"
	"log/slog"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// Store is the part of the store that this package uses.
type Store interface {
	store.Outbox
	store.Sessions
}

// Directory is the sessions of this instance, by name, and their utterances, by job. It brings them what comes from jobs and from
// nodes; what is for a session of another instance it puts into the outbox and into a message to that instance.
type Directory struct {
	cfg    Config
	store  Store
	bus    *bus.Bus // nil: there are no other instances
	audio  *audio.Buffer
	counts *telemetry.Sessions
	log    *slog.Logger

	mu       sync.Mutex
	sessions map[core.SessionKey]*Session
	spoken   map[core.JobID]*utterance // until nothing more can come of them
}

// NewDirectory makes an empty directory. The bus may be nil.
func NewDirectory(cfg Config, st Store, b *bus.Bus, buffer *audio.Buffer, counts *telemetry.Sessions, log *slog.Logger) *Directory {
	return &Directory{
		cfg: cfg, store: st, bus: b, audio: buffer, counts: counts, log: log,
		sessions: make(map[core.SessionKey]*Session), spoken: make(map[core.JobID]*utterance),
	}
}

// Len is how many sessions there are.
func (d *Directory) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sessions)
}

// named is the session of this instance that has a name, whatever its incarnation; nil when there is none.
func (d *Directory) named(key core.SessionKey) *Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[key]
}

// session is one incarnation of a session, nil when it is not here.
func (d *Directory) session(ref core.SessionRef) *Session {
	if s := d.named(ref.SessionKey); s != nil && s.ref == ref {
		return s
	}
	return nil
}

// utterance is one of this instance's sessions, by its job.
func (d *Directory) utterance(job core.JobID) *utterance {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spoken[job]
}

// forget lets go of an utterance of which nothing more can come.
func (d *Directory) forget(u *utterance) {
	d.mu.Lock()
	mine := d.spoken[u.job] == u
	if mine {
		delete(d.spoken, u.job)
	}
	d.mu.Unlock()
	if mine {
		d.audio.Remove(u.job)
	}
}

// Ended implements dispatch.Outcomes: it puts the terminal message of a job into its session's outbox, and passes it
// on if the session is here.
func (d *Directory) JobEnded(ctx context.Context, job *core.Job) error {
	e, err := seal(job)
	if err != nil {
		return err
	}
	return d.append(ctx, store.Ownership{}, &job.Spec, e)
}

// append puts the terminal message of an utterance into its session's outbox, if it is for whoever claims to say it, and
// passes it on if the session is here.
func (d *Directory) append(ctx context.Context, by store.Ownership, spec *core.Spec, e *envelope) error {
	turn := spec.Utterance.Turn
	body, err := e.encode()
	if err != nil {
		return err
	}
	a, err := d.store.Append(ctx, store.AppendParams{Session: spec.SessionRef(), Index: turn - 1, Body: body, Keep: d.cfg.keep(), MaxBytes: d.cfg.OutboxBytes, By: by})
	if err != nil {
		return err
	}
	if a.Exists {
		e = nil // what stands is read from the outbox
	}
	s, mine := d.session(spec.SessionRef()), a.Owner == "" || a.Owner == d.cfg.Instance
	if s != nil && (a.Refused || !mine) {
		s.superseded()
	}
	switch {
	case a.Refused:
	case !mine:
		l := endedLetter{Session: spec.SessionRef(), Job: spec.Job(), Turn: turn, Seq: a.Seq}
		if e != nil && len(body) <= mostWritten {
			l.Message = body // a large one, or another, is read from the outbox
		}
		d.write(ctx, a.Owner, kindEnded, tellFor, l)
	case s != nil:
		s.appended(turn, a.Seq, e)
	}
	return nil
}
