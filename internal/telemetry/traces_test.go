package telemetry

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// TestExemplars: a duration that was measured in a trace has the trace as its exemplar, and others have none.
func TestExemplars(t *testing.T) {
	t.Parallel()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for _, id := range []string{trace, ""} {
		m := New()
		m.ObserveDispatch(time.Millisecond, false, id)
		m.ObserveDispatch(time.Millisecond, true, id)
		m.ObserveJobEnd(core.StateDone, time.Second, id)
		m.ObserveOutcome(time.Now(), true, id)
		families, err := m.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := make(map[string]int)
		for _, f := range families {
			for _, one := range f.GetMetric() {
				for _, b := range one.GetHistogram().GetBucket() {
					for _, l := range b.GetExemplar().GetLabel() {
						if l.GetName() == "trace_id" && l.GetValue() == trace {
							found[f.GetName()]++
						}
					}
				}
			}
		}
		for name, n := range map[string]int{"lingua_dispatch_duration_seconds": 2, "lingua_job_duration_seconds": 1, "lingua_utterance_duration_seconds": 1} {
			if id == "" {
				n = 0
			}
			if found[name] != n {
				t.Errorf("with the trace %q, %s has %d exemplars, want %d", id, name, found[name], n)
			}
		}
	}
}

// TestObservationWithoutATraceCostsNothing checks that it allocates nothing.
func TestObservationWithoutATraceCostsNothing(t *testing.T) {
	m := New()
	if n := testing.AllocsPerRun(100, func() { m.ObserveDispatch(time.Millisecond, false, "") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
