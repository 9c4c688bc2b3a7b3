package stats

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// NodeStates returns the names of the states of nodes, in their order: those that get jobs first.
func NodeStates() []string { return stateNames[stateReady:] }

// StateOf returns the state of a node in view, as its index in NodeStates.
func StateOf(n *core.Node) int { return int(stateOf(n) - stateReady) }

// StateOffline is the state of a node that is not in view, as its index in NodeStates.
const StateOffline = int(stateOffline - stateReady)

// RecentCounts is what was counted of a node.
type RecentCounts struct{ Done, Failed int }

// Recent returns what was counted of each node that has a series: in the points of the span before now, and since the newest point.
func (s *NodeSeries) Recent(span time.Duration) map[core.NodeID]RecentCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	recent := make(map[core.NodeID]RecentCounts, len(s.nodes))
	oldest := s.last - int64(span/SeriesStep) + 1
	for id, n := range s.nodes {
		pending := s.pending[id]
		c := RecentCounts{Done: pending.done, Failed: pending.failed}
		for index := max(n.first, oldest); index <= n.last; index++ {
			done, failed := n.points[index%seriesPoints].counts()
			c.Done += done
			c.Failed += failed
		}
		recent[id] = c
	}
	return recent
}

// counts returns how many jobs were done and failed in a point.
func (p nodePoint) counts() (done, failed int) {
	const doneAt = stateBits + 2*slotBits
	return int(p>>doneAt) & (1<<doneBits - 1), int(p>>(doneAt+doneBits)) & (1<<failedBits - 1)
}
