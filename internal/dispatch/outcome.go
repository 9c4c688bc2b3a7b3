package dispatch

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Outcomes is told how the jobs of conversations end.
type Outcomes interface {
	// Ended puts the end of a job where its session finds it, whichever instance the session is with. It is told
	// before the job's slot is freed, so that whoever finds a slot still taken can tell it again: it may be told more
	// than once, and by several instances.
	JobEnded(ctx context.Context, job *core.Job) error
	// Wanted says that a job waits for whoever has its sound, if anybody has: it is rearmed there. Nothing depends on its
	// being heard.
	AudioWanted(ctx context.Context, job *core.Job)
	// Over tells another instance that a job it sees through has ended. It finds out by itself otherwise.
	NotifyEnded(ctx context.Context, at core.InstanceID, job core.JobID)
}

// tell hands up how a job ended, if it is part of a conversation.
func (d *Dispatcher) tell(ctx context.Context, job *core.Job) error {
	if d.outcomes == nil || job.Utterance.Turn == 0 || !job.State.Terminal() || job.Refused() {
		return nil
	}
	return d.outcomes.JobEnded(ctx, job)
}

// mustTell does so however often it takes. It reports false when the context ended first: then the job's slot stays
// taken, and whoever finds it tells.
func (d *Dispatcher) mustTell(ctx context.Context, job *core.Job) bool {
	return d.persist(ctx, func() error { return d.tell(ctx, job) })
}
