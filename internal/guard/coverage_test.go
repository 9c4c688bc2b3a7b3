package guard

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestCoverageCountsDirectionsInUse checks that a direction that nodes declare and nobody used for a day does not count.
func TestCoverageCountsDirectionsInUse(t *testing.T) {
	t.Parallel()
	cover := func(pairs ...string) (all []wire.DirectionCoverage) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, wire.DirectionCoverage{SrcLang: pairs[i], TgtLang: pairs[i+1]})
		}
		return all
	}
	s := &wire.Stats{
		Nodes:    wire.StatsNodes{Total: 21, Ready: 1, Degraded: 2, Draining: 3, Ejected: 4, Disconnected: 5, Offline: 6, Connected: 9},
		Coverage: wire.StatsCoverage{None: cover("ko", "de"), One: cover("en", "ja", "ja", "en", "en", "fr"), More: cover("en", "de", "de", "en")},
	}
	for _, d := range [][2]string{{"ko", "de"}, {"en", "ja"}, {"ja", "en"}, {"en", "de"}} {
		s.Languages.LastDay.Directions = append(s.Languages.LastDay.Directions, wire.DirectionUse{SrcLang: d[0], TgtLang: d[1], Jobs: 1})
	}
	want := telemetry.Coverage{
		Nodes:      map[string]int{"ready": 1, "degraded": 2, "draining": 3, "ejected": 4, "disconnected": 5, "offline": 6},
		Directions: map[string]int{"0": 1, "1": 2, "more": 1},
	}
	if diff := cmp.Diff(want, coverageOf(s)); diff != "" {
		t.Errorf("coverage (-want +got):\n%s", diff)
	}
}
