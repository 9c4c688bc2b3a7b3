package stats

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Coverage returns the numbers of the current snapshot that are metrics; false if there is none.
func (r *Reader) Coverage() (telemetry.Coverage, bool) {
	a := r.current.Load()
	if a == nil {
		return telemetry.Coverage{}, false
	}
	return a.coverage, true
}

// Age returns how old the current snapshot is. Without one it is the time since this reader was made.
func (r *Reader) Age() time.Duration {
	if made, age := r.Snapshot(); made != 0 {
		return age
	}
	return time.Since(r.since)
}

// coverageOf counts the nodes by health, and the directions that had jobs in the last day by the number of their ready nodes, in the pool
// or for the tenant that has the fewest. A direction that nodes declare and nobody uses needs no spare.
func coverageOf(s *wire.Stats) telemetry.Coverage {
	n := &s.Nodes
	used := make(map[[2]string]bool, len(s.Languages.LastDay.Directions))
	for i := range s.Languages.LastDay.Directions {
		d := &s.Languages.LastDay.Directions[i]
		used[[2]string{d.SrcLang, d.TgtLang}] = true
	}
	inUse := func(all []wire.DirectionCoverage) int {
		count := 0
		for i := range all {
			if d := [2]string{all[i].SrcLang, all[i].TgtLang}; used[d] {
				count++
				delete(used, d) // it is counted once, by the list with the fewest nodes
			}
		}
		return count
	}
	none, one, more := inUse(s.Coverage.None), inUse(s.Coverage.One), inUse(s.Coverage.More)
	return telemetry.Coverage{
		Nodes: map[string]int{
			"ready": n.Ready, "degraded": n.Degraded, "draining": n.Draining, "ejected": n.Ejected, "disconnected": n.Disconnected,
			"offline": n.Offline,
		},
		Directions: map[string]int{"0": none, "1": one, "more": more},
	}
}
