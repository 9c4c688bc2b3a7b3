package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Link is where a session's messages go. It never makes anybody wait: what it cannot take closes it.
type Conn interface {
	Send(f wire.Frame) bool
	// SendText sends a frame that was written before.
	SendText(text []byte) bool
	// Feed sends binary frames as they are taken: next hands out one after the other, nil when there is none for now.
	Feed(next func() []byte) bool
	// Ping asks the other side for a pong with the same payload, which comes to Seat.Pong.
	Ping(payload []byte) bool
	Close(code wire.CloseCode, e *wire.Error)
	// Part says a last word, after all the rest, and closes it.
	SendFinal(f wire.Frame)
}

// Jobs is what a session needs of dispatch.
type Jobs interface {
	DispatchWaiting(ctx context.Context, r dispatch.Request, w dispatch.Wait) (dispatch.Placement, error)
	Cancel(ctx context.Context, id core.JobID) (*core.Job, bool, error)
	// Rearm goes on with a job whose sound is here again, and reports whether there is such a job.
	ResumeWithAudio(ctx context.Context, id core.JobID) (known bool, err error)
	// GiveUp ends a job that has not ended, for a reason, and reports whether there is such a job.
	Abandon(ctx context.Context, id core.JobID, reason core.Reason) (known bool, err error)
	// Settled lets go of a job that has ended elsewhere.
	EndedElsewhere(id core.JobID)
}

// Store is what this package needs of the store.
type Store interface {
	store.Outbox
	store.Sessions
}

// Rooms holds the conversations of this instance.
type Registry struct {
	cfg    Config
	store  Store
	jobs   Jobs
	counts *telemetry.Sessions
	log    *slog.Logger
	bus    *bus.Bus // nil when this instance is alone
	Sounds *AudioBuffer

	mu       sync.Mutex
	sessions map[core.SessionKey]*Session
	spoken   map[core.JobID]*utterance // of this instance's sessions, until nothing more can come of them
	closed   bool
	leaving  bool // everybody is asked to go on elsewhere

	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup
}

// New makes it. End it with Close.
func New(cfg Config, st Store, jobs Jobs, counts *telemetry.Sessions, log *slog.Logger) *Registry {
	r := &Registry{
		cfg: cfg, store: st, jobs: jobs, counts: counts, log: log, Sounds: newSounds(cfg.AudioBufferBytes),
		sessions: make(map[core.SessionKey]*Session), spoken: make(map[core.JobID]*utterance),
	}
	r.life, r.end = context.WithCancel(context.Background()) //nolint:forbidigo // utterances outlive connections
	return r
}

// Len is how many sessions there are.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions)
}

// Close forgets every session and waits for what runs beside them. Their state is in the store.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	all := make([]*Session, 0, len(r.sessions))
	for _, s := range r.sessions {
		all = append(all, s)
	}
	r.mu.Unlock()
	for _, s := range all {
		s.stop()
	}
	r.end()
	r.work.Wait()
}

// background runs fn beside the caller, unless the rooms are closed.
func (r *Registry) background(fn func(ctx context.Context)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.work.Go(func() { fn(r.life) })
	}
}

// named is the session of this instance that has a name, whatever its incarnation; nil when there is none.
func (r *Registry) named(key core.SessionKey) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[key]
}

// session is one incarnation of a session, nil when it is not here.
func (r *Registry) session(ref core.SessionRef) *Session {
	if s := r.named(ref.SessionKey); s != nil && s.ref == ref {
		return s
	}
	return nil
}

// utterance is one of this instance's sessions, by its job.
func (r *Registry) utterance(job core.JobID) *utterance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spoken[job]
}

// forget lets go of an utterance of which nothing more can come.
func (r *Registry) forget(u *utterance) {
	r.mu.Lock()
	mine := r.spoken[u.job] == u
	if mine {
		delete(r.spoken, u.job)
	}
	r.mu.Unlock()
	if mine {
		r.Sounds.free(u.job)
	}
}

// Ended implements dispatch.Outcomes: it puts the terminal message of a job into its session's outbox, and passes it
// on if the session is here.
func (r *Registry) JobEnded(ctx context.Context, job *core.Job) error {
	e, err := seal(job)
	if err != nil {
		return err
	}
	return r.append(ctx, store.Ownership{}, &job.Spec, e)
}

// append puts the terminal message of an utterance into its session's outbox, if it is for whoever claims to say it, and
// passes it on if the session is here.
func (r *Registry) append(ctx context.Context, by store.Ownership, spec *core.Spec, e *envelope) error {
	turn := spec.Utterance.Turn
	body, err := e.encode()
	if err != nil {
		return err
	}
	a, err := r.store.Append(ctx, store.AppendParams{Session: spec.SessionRef(), Index: turn - 1, Body: body, Keep: r.cfg.keep(), MaxBytes: r.cfg.OutboxBytes, By: by})
	if err != nil {
		return err
	}
	if a.Exists {
		e = nil // what stands is read from the outbox
	}
	s, mine := r.session(spec.SessionRef()), a.Owner == "" || a.Owner == r.cfg.Instance
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
		r.write(ctx, a.Owner, kindEnded, tellFor, l)
	case s != nil:
		s.appended(turn, a.Seq, e)
	}
	return nil
}

// hashOf is what is kept of a token.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
