package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Link is where a session's messages go. It never makes anybody wait: what it cannot take closes it.
type Link interface {
	Send(f wire.Frame) bool
	// SendText sends a frame that was written before.
	SendText(text []byte) bool
	SendBinary(frame []byte) bool
	Close(code wire.CloseCode, e *wire.Error)
}

// Jobs is what a session needs of dispatch.
type Jobs interface {
	Dispatch(ctx context.Context, r dispatch.Request) (dispatch.Placement, error)
	Cancel(ctx context.Context, id core.JobID) (*core.Job, bool, error)
	// Rearm goes on with a job whose sound is here again, and reports whether there is such a job.
	Rearm(ctx context.Context, id core.JobID) (known bool, err error)
}

// Store is what this package needs of the store.
type Store interface {
	store.Outbox
	store.Sessions
}

// Rooms holds the conversations of this instance.
type Rooms struct {
	cfg    Config
	store  Store
	jobs   Jobs
	counts *telemetry.Conversations
	log    *slog.Logger
	Sounds *Sounds

	mu       sync.Mutex
	sessions map[core.SessionID]*Session
	spoken   map[core.JobID]*utterance // of this instance's sessions, until nothing more can come of them
	closed   bool

	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup
}

var _ dispatch.Outcomes = (*Rooms)(nil)

// New makes it. End it with Close.
func New(cfg Config, st Store, jobs Jobs, counts *telemetry.Conversations, log *slog.Logger) *Rooms {
	r := &Rooms{
		cfg: cfg, store: st, jobs: jobs, counts: counts, log: log, Sounds: newSounds(cfg.Held),
		sessions: make(map[core.SessionID]*Session), spoken: make(map[core.JobID]*utterance),
	}
	r.life, r.end = context.WithCancel(context.Background()) //nolint:forbidigo // utterances outlive connections
	return r
}

// Len is how many sessions there are.
func (r *Rooms) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions)
}

// Close forgets every session and waits for what runs beside them. Their state is in the store.
func (r *Rooms) Close() {
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
func (r *Rooms) background(fn func(ctx context.Context)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.work.Go(func() { fn(r.life) })
	}
}

func (r *Rooms) session(id core.SessionID) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[id]
}

// utterance is one of this instance's sessions, by its job.
func (r *Rooms) utterance(job core.JobID) *utterance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spoken[job]
}

func (r *Rooms) forget(job core.JobID) {
	r.mu.Lock()
	delete(r.spoken, job)
	r.mu.Unlock()
	r.Sounds.free(job)
}

// Ended implements dispatch.Outcomes: it puts the terminal message of a job into its session's outbox, and passes it
// on if the session is here.
func (r *Rooms) Ended(ctx context.Context, job *core.Job) error {
	body, err := message(job)
	if err != nil {
		return err
	}
	return r.append(ctx, job.Session, job.Utterance.Turn, body)
}

func (r *Rooms) append(ctx context.Context, id core.SessionID, turn int64, body []byte) error {
	seq, err := r.store.Append(ctx, store.AppendParams{Session: id, Index: turn - 1, Body: body, Keep: r.cfg.keep()})
	if err != nil {
		return err
	}
	if s := r.session(id); s != nil {
		s.appended(turn, seq, body)
	}
	return nil
}

// secret makes a token and what is kept of it.
func secret() (token, hash string) {
	token = rand.Text()
	return token, hashOf(token)
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
