package server_test

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// rememberedOnly makes the scheduler remember a job of which the store has no record any more.
func (ts *testScheduler) rememberedOnly(id core.JobID, created time.Time) core.JobID {
	ts.t.Helper()
	job := &core.Job{
		ID: id, State: core.StateFailed, Reason: core.ReasonNodeLost, Created: created, Updated: created, Deadline: created,
		Spec:   core.Spec{Session: "room", Direction: core.Direction{Src: "en", Tgt: "zh"}},
		Holder: core.Holder{Attempt: 1, Node: "n1"},
	}
	job.BeginAttempt(created)
	ts.scheduler.Stats.Jobs.AddJob(job)
	return id
}
