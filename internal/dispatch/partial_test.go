package dispatch_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestNoVerdictOnAPartialFleet: an instance that has not read the whole fleet cannot say that nobody can do a job. What it
// finds it grants.
func TestNoVerdictOnAPartialFleet(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.deafen() // or the follower would read it
		w.fleet.SetPartial(true)
		if e := w.refused(); e.Code != wire.SchedulerDependencyDown || e.RetryAfterMS == 0 {
			t.Errorf("refused with %s, retry_after_ms %d", e.Code, e.RetryAfterMS)
		}
		w.node("node-a", 1)
		w.dispatch(request("r1"))
		w.fleet.SetPartial(false)
		if e := w.refused(request("r2")); e.Code != wire.AllCandidatesFullOrFailed {
			t.Errorf("refused with %s", e.Code)
		}
	})
}
