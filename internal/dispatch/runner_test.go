package dispatch

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// TestTimerThatFiredBeforeTheNextPhaseIsIgnored: between the firing of a timer and its handling the job may
// have moved on and another phase begun. The store here is nil: a call of it would panic.
func TestTimerThatFiredBeforeTheNextPhaseIsIgnored(t *testing.T) {
	t.Parallel()
	r := &runner{}
	job := &core.Job{ID: "job-1", State: core.StateDispatched, Token: "t.2"}
	for _, waiting := range []phase{phaseACK, phaseRunning} {
		f := &inFlightJob{id: job.ID, job: job, deadline: time.Now().Add(time.Hour), attemptEnds: time.Now().Add(time.Hour)}
		f.arm("t.2", waiting, time.Now().Add(time.Hour), func() {})
		r.onTimer(t.Context(), f)
		if f.phase != waiting {
			t.Errorf("phase %d became %d", waiting, f.phase)
		}
		f.timer.Stop()
	}
}
