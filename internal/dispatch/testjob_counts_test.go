package dispatch

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// TestProbesAreNotSilent checks that a node is not set aside because it says nothing about probes.
func TestProbesAreNotSilent(t *testing.T) {
	t.Parallel()
	for _, probe := range []bool{false, true} {
		f := entryOf("job-1", "i.1")
		f.job.TestJob = probe
		f.phase, f.heard = phaseRunning, time.Now().Add(-time.Minute)
		if _, since := f.silence(time.Now()); (since == 0) != probe {
			t.Errorf("probe %v: silent for %v", probe, since)
		}
	}
}

// TestProbesAreNotSpread checks that the node of a probe is not stored as the last one of a session.
func TestProbesAreNotSpread(t *testing.T) {
	t.Parallel()
	s := spreader{window: time.Minute}
	for _, probe := range []bool{false, true} {
		if s.isStored(&core.Spec{Session: "room-1", TestJob: probe}) == probe {
			t.Errorf("probe %v: whether it is stored is wrong", probe)
		}
	}
}
