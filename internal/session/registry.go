package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
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

// Registry starts and resumes the sessions of this instance, and ends them with it.
type Registry struct {
	*Directory
	jobs Jobs

	closed  bool // guarded by the directory's mutex, as is leaving
	leaving bool // clients are asked to continue on another instance

	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup
}

// NewRegistry makes the registry of a directory. End it with Close.
func NewRegistry(d *Directory, jobs Jobs) *Registry {
	r := &Registry{Directory: d, jobs: jobs}
	r.life, r.end = context.WithCancel(context.Background()) //nolint:forbidigo // utterances outlive connections
	return r
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

// hashOf is what is kept of a token.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
