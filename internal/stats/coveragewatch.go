package stats

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	// uncoveredPart is the name of the part of the stored history that has the directions without a ready node.
	uncoveredPart = "uncovered"
	// uncoveredGrace is for how long a direction has no ready node before that is an event: nodes restart, and all of them register again
	// after the scheduler was away.
	uncoveredGrace = 10 * time.Second
	// maxCoverageEvents bounds the events of one step; one more says how many others there are.
	maxCoverageEvents = 10
)

// coverageWatch notices when directions that are in demand, which had jobs in the last day, lose their last ready node, in a pool or for a
// tenant that depends on it, and when they have one again. It belongs to the leader; what it has reported is stored with the history, so
// that another leader does not report it again.
type coverageWatch struct {
	uncovered map[string]int64     // what was reported, as fleet.Cover names it, and since when it has no ready node, in Unix milliseconds
	suspects  map[string]time.Time // what has no ready node, and was not reported yet
	pending   []store.Event        // that were not recorded yet
}

func newCoverageWatch() *coverageWatch {
	return &coverageWatch{uncovered: make(map[string]int64), suspects: make(map[string]time.Time)}
}

// decodeWatch decodes the stored state. One that cannot be read, because another version wrote it, is left out.
func decodeWatch(body []byte) *coverageWatch {
	w := newCoverageWatch()
	var uncovered map[string]int64
	if json.Unmarshal(body, &uncovered) == nil && len(uncovered) <= maxListed {
		maps.Copy(w.uncovered, uncovered)
	}
	return w
}

// update compares the coverage with what was reported, and reports whether that has changed.
func (w *coverageWatch) update(covers []coveredBy, demand counts, now time.Time) (changed bool) {
	ready := make(map[string]int)
	directions := make(map[string]core.Direction)
	for i := range covers {
		if c := &covers[i]; demand[c.Direction.String()] > 0 {
			name := c.String()
			ready[name], directions[name] = c.Ready, c.Direction
		}
	}
	maps.DeleteFunc(w.suspects, func(name string, _ time.Time) bool { n, inDemand := ready[name]; return !inDemand || n > 0 })
	var lost, restored []string
	for _, name := range slices.Sorted(maps.Keys(ready)) {
		_, reported := w.uncovered[name]
		switch since, suspected := w.suspects[name]; {
		case ready[name] > 0 && reported:
			restored = append(restored, name)
		case ready[name] > 0 || reported:
		case !suspected:
			w.suspects[name] = now
		case now.Sub(since) >= uncoveredGrace && len(w.uncovered)+len(lost) < maxListed:
			lost = append(lost, name)
		}
	}
	w.report(lost, directions, "%s has no ready node", "%d more directions have no ready node", func(name string) (string, int) {
		w.uncovered[name] = w.suspects[name].UnixMilli()
		delete(w.suspects, name)
		return "", 0
	})
	w.report(restored, directions, "%s has a ready node again", "%d more directions have a ready node again",
		func(name string) (string, int) {
			away := max(0, now.Sub(time.UnixMilli(w.uncovered[name]))).Round(time.Second)
			delete(w.uncovered, name)
			return fmt.Sprintf(" after %s", away), ready[name]
		})
	before := len(w.uncovered)
	// nobody wants it any more
	maps.DeleteFunc(w.uncovered, func(name string, _ int64) bool { _, inDemand := ready[name]; return !inDemand })
	return len(lost)+len(restored) > 0 || len(w.uncovered) != before
}

// report makes the events of what has changed, with a text for each, or for the number of those that have none of their own. note notes
// that one is reported, and returns what is added to its text and how many ready nodes it has.
func (w *coverageWatch) report(names []string, directions map[string]core.Direction, text, more string,
	note func(name string) (string, int)) {
	for i, name := range names {
		addition, ready := note(name)
		if i < maxCoverageEvents {
			w.pending = append(w.pending, store.Event{Kind: store.EventCoverage, Direction: directions[name], Ready: ready,
				Detail: fmt.Sprintf(text, name) + addition})
		}
	}
	if n := len(names) - maxCoverageEvents; n > 0 {
		w.pending = append(w.pending, store.Event{Kind: store.EventCoverage, Detail: fmt.Sprintf(more, n)})
	}
}

// watchCoverage makes the changes of the coverage part of the history. A leader that has not read the whole fleet yet has nothing to
// report.
func (g *Generator) watchCoverage(past *history, day tally, now time.Time) {
	if g.Fleet.Partial() {
		return
	}
	if past.watch.update(g.survey.covers, day.Directions, now) {
		past.unsaved[uncoveredPart] = func() any { return past.watch.uncovered }
	}
}

// recordCoverage records the changes of the coverage. It is called after the history was stored: another leader does not record them again.
func (g *Generator) recordCoverage(past *history) {
	for _, e := range past.watch.pending {
		g.Events.Record(e)
	}
	past.watch.pending = nil
}
