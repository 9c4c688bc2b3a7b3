package telemetry

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestCoverage(t *testing.T) {
	t.Parallel()
	now, known := Coverage{}, false
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCoverage(func() (Coverage, bool) { return now, known }))
	if _, series := gather(t, reg); len(series) > 0 {
		t.Errorf("without a snapshot there are %v", series)
	}
	now = Coverage{Nodes: map[string]int{"ready": 3, "ejected": 0}, Directions: map[string]int{"0": 1, "more": 7}}
	known = true
	_, series := gather(t, reg)
	want := map[string]float64{
		"lingua_nodes{health=ready}": 3, "lingua_nodes{health=ejected}": 0,
		"lingua_directions{ready=0}": 1, "lingua_directions{ready=more}": 7,
	}
	if diff := cmp.Diff(want, series); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}
