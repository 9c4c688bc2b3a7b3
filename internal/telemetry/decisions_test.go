package telemetry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDispatchesWhileModelHubIsDown checks that dispatches are counted by the state of the ModelHub.
func TestDispatchesWhileModelHubIsDown(t *testing.T) {
	t.Parallel()
	m := New()
	observe := func(accepted, refused int) {
		for range accepted {
			m.ObserveDispatch(time.Millisecond, false, "")
		}
		for range refused {
			m.ObserveDispatch(time.Millisecond, true, "")
		}
	}
	observe(2, 1)
	m.SetModelHubDown(true)
	observe(5, 3)
	m.SetModelHubDown(false)
	observe(1, 1)
	if diff := cmp.Diff(map[string]int64{"accepted": 5, "refused": 3}, m.HubDownDispatches.All()); diff != "" {
		t.Errorf("while it is down (-want +got):\n%s", diff)
	}
	if accepted := m.Accepted(); accepted.Count() != 8 || m.Refused() != 5 || m.decided() != 13 {
		t.Errorf("%d accepted and %d refused dispatches are counted, %d in all, want 8, 5 and 13", accepted.Count(), m.Refused(), m.decided())
	}
}

// BenchmarkObserveDispatch is what every dispatch pays for its metrics.
func BenchmarkObserveDispatch(b *testing.B) {
	m := New()
	b.ReportAllocs()
	for b.Loop() {
		m.ObserveDispatch(time.Millisecond, false, "")
	}
}
