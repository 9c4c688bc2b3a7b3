package telemetry

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCloseCodesOfPeersAreBounded checks that unusual close codes of peers share one series.
func TestCloseCodesOfPeersAreBounded(t *testing.T) {
	t.Parallel()
	m := New()
	for code := 3000; code < 5000; code++ {
		m.CountClose(code, true)
	}
	m.CountClose(1000, true)
	m.CountClose(1006, false)
	m.CountClose(4409, false)
	_, series := gather(t, m.Registry)
	want := map[string]float64{
		"lingua_socket_closes_total{code=other,side=peer}":     2000,
		"lingua_socket_closes_total{code=1000,side=peer}":      1,
		"lingua_socket_closes_total{code=1006,side=scheduler}": 1,
		"lingua_socket_closes_total{code=4409,side=scheduler}": 1,
	}
	if diff := cmp.Diff(want, withPrefix(series, "lingua_socket_closes_total")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// TestObserveOutcome checks that an utterance of another instance is counted without a duration.
func TestObserveOutcome(t *testing.T) {
	t.Parallel()
	m := New()
	m.ObserveOutcome(time.Now(), true, "")
	m.ObserveOutcome(time.Now(), false, "")
	m.ObserveOutcome(time.Time{}, true, "")
	_, series := gather(t, m.Registry)
	want := map[string]float64{
		"lingua_session_messages_total{kind=result}":        2,
		"lingua_session_messages_total{kind=error}":         1,
		"lingua_utterance_duration_seconds{outcome=result}": 1,
		"lingua_utterance_duration_seconds{outcome=error}":  1,
	}
	maps.DeleteFunc(series, func(name string, _ float64) bool { return want[name] == 0 })
	if diff := cmp.Diff(want, withoutRuntime(series)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}
