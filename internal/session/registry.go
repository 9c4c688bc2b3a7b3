package session

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// Jobs is the part of dispatch that sessions use.
type Jobs interface {
	Dispatch(ctx context.Context, r dispatch.Request) (dispatch.Placement, error)
	Cancel(ctx context.Context, id core.JobID) (*core.Job, bool, error)
	// ResumeWithAudio resumes a job whose audio is here again, and reports whether there is such a job.
	ResumeWithAudio(ctx context.Context, id core.JobID) (known bool, err error)
	// Abandon ends a job that has not ended, for a reason, and reports whether there is such a job.
	Abandon(ctx context.Context, id core.JobID, reason core.Reason) (known bool, err error)
	// RecordPartial records that the node of an attempt has sent a partial result.
	RecordPartial(id core.JobID, attempt int)
	// EndedElsewhere drops a job that has ended on another instance.
	EndedElsewhere(id core.JobID)
}

// Registry starts and resumes the sessions of this instance, and ends them with it.
type Registry struct {
	*Directory
	jobs   Jobs
	placer *placer

	closed   bool // guarded by the directory's mutex, as is draining
	draining bool // clients are asked to continue on another instance

	background *run.Group // utterances outlive connections
}

// NewRegistry makes the registry of a directory. End it with Close.
func NewRegistry(d *Directory, jobs Jobs) *Registry {
	r := &Registry{Directory: d, jobs: jobs, background: run.NewGroup()}
	r.placer = &placer{directory: d, jobs: jobs, isDraining: r.isDraining}
	return r
}

// Close stops every session and waits for what runs in the background. The sessions' state is in the store.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for _, s := range r.all() {
		s.stop()
	}
	r.background.Close()
}

// add adds a session, and reports false if there is one with its name.
func (r *Registry) add(s *Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.sessions[s.ref.SessionKey] != nil {
		return false
	}
	r.sessions[s.ref.SessionKey] = s
	return true
}

// GoAway asks every client to continue on another instance within a time, and closes the connections that are left. It
// returns when all are closed. From now on no session is started or resumed here.
func (r *Registry) GoAway(ctx context.Context, reason string, within time.Duration) {
	r.mu.Lock()
	r.draining = true
	r.mu.Unlock()
	var conns []Conn
	for _, s := range r.all() {
		if conn := s.connection(); conn != nil {
			conns = append(conns, conn)
		}
	}
	socket.GoAway(ctx, conns, reason, "connect again and resume", within)
}

// isDraining reports whether clients are asked to continue on another instance.
func (r *Registry) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// drainingError is the error for a client that connects while clients are asked to go away.
func drainingError() *wire.Error {
	return wire.Errorf(wire.AllCandidatesFullOrFailed,
		"this instance is stopping: connect again, and another will answer").RetryIn(time.Second)
}
