package pick

import (
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// Selection chooses candidates for one job. It samples members of an index at random without replacement, no more than it
// needs, and returns them in the order in which they should be tried: of each two that pass the filters and seem to have a
// free slot, the one with the lower in-flight share first, or the one that has not missed a heartbeat. The least of many by
// numbers that are a little old would send all jobs to the same node; the lesser of two does not.
type Selection struct {
	picker  *Picker
	query   Query
	order   order      // of the pools
	view    fleet.View // of the members of the current pool
	sampled int
	swaps   []swap       // of the numbers of members
	second  fleet.Member // passed the filters, not yet returned
	drawn   []core.Candidate
}

// swap is one exchange of a shuffle that is made only as far as it is read.
type swap struct{ position, index int }

// Select starts a selection among the pools of a route that are in a group, of which NextPool enters one after the other; first, if it is
// not empty, before the others. Return it with End.
func (p *Picker) Select(q Query, route *fleet.Route, group Group, first core.PoolID) *Selection {
	s := p.selections.Get().(*Selection)
	s.query = q
	s.order.begin(p.intN, route, group, &s.query.Pools, first)
	return s
}

// NextPool enters the next pool: Next returns candidates of it then. It returns false when the job was tried in all pools of the group.
func (s *Selection) NextPool() (pool core.PoolID, ok bool) {
	stop := s.order.next()
	if stop == nil {
		return "", false
	}
	if s.order.route.Division == nil && stop.IsWhole() { // with one pool, the current members cost no more
		s.view = stop.Index.View()
	} else {
		s.view = stop.View
	}
	s.swaps, s.sampled = s.swaps[:0], 0
	s.second = fleet.Member{}
	return stop.Pool, true
}

// End returns the selection to the pool of selections; it must not be used afterwards.
func (s *Selection) End() {
	s.swaps, s.sampled, s.view, s.query = s.swaps[:0], 0, fleet.View{}, Query{}
	s.order.end()
	s.second = fleet.Member{}
	clear(s.drawn) // the ids of nodes may be gone
	s.drawn = s.drawn[:0]
	s.picker.selections.Put(s)
}

// Drawn returns the nodes that were sampled so far, each with the reason for which it was rejected. It is valid until End.
func (s *Selection) Drawn() []core.Candidate { return s.drawn }

// Reject records why a candidate that Next returned did not get the job after all.
func (s *Selection) Reject(node core.NodeID, reason core.Reason) {
	for i := range s.drawn {
		if s.drawn[i].Node == node {
			s.drawn[i].Reason = reason
		}
	}
}

// Next returns the next candidate; its Node is nil when the sample is used up.
func (s *Selection) Next() fleet.Member {
	if first := s.second; first.Node != nil {
		s.second = fleet.Member{}
		return first
	}
	// Both are sampled and fetched before either is filtered, so that the waits for memory overlap.
	slotA, slotB := s.sampleSlot(), s.sampleSlot()
	s.view.Prefetch(slotA)
	s.view.Prefetch(slotB)
	a, b := s.view.At(slotA), s.view.At(slotB)
	first, second := s.filter(a), s.filter(b)
	if first.Node == nil {
		first, second = second, fleet.Member{}
	}
	if first.Node == nil {
		if first = s.samplePassing(); first.Node == nil {
			return first
		}
	}
	if second.Node == nil {
		second = s.samplePassing()
	}
	if second.Node != nil && s.isBefore(second.Node, first.Node) {
		first, second = second, first
	}
	s.second = second
	return first
}

// isBefore reports whether of two candidates the first should be tried before the second: its in-flight share is lower, or is
// the same and only the second has missed a heartbeat. Among nodes that have not missed one the choice stays random: the more
// recent heartbeat says nothing about them, and a node that sends more of them would get more jobs.
func (s *Selection) isBefore(a, b *fleet.Node) bool {
	if x, y := s.inFlightShare(a), s.inFlightShare(b); x != y {
		return x < y
	}
	return s.isLate(b) && !s.isLate(a)
}

// isLate reports whether a node has missed a heartbeat.
func (s *Selection) isLate(n *fleet.Node) bool {
	late := s.picker.policy.LateAfter
	return late > 0 && n.SinceSeen(s.query.Now) > late
}

func (s *Selection) inFlightShare(n *fleet.Node) float64 {
	return s.picker.fleet.Utilization(n, s.query.Now)
}

// filter returns the member if it passes the filters and is believed to have a free slot, else none.
func (s *Selection) filter(m fleet.Member) fleet.Member {
	if m.Node == nil {
		return m
	}
	reason := s.picker.filterMember(&s.query, m.Node)
	if reason == core.ReasonNone && s.inFlightShare(m.Node) >= 1 {
		reason = core.ReasonFull
	}
	s.drawn = append(s.drawn, core.Candidate{Node: m.ID(), Reason: reason})
	if reason != core.ReasonNone {
		return fleet.Member{}
	}
	return m
}

// samplePassing samples until a member passes.
func (s *Selection) samplePassing() fleet.Member {
	for m := s.sampleMember(); m.Node != nil; m = s.sampleMember() {
		if m = s.filter(m); m.Node != nil {
			return m
		}
	}
	return fleet.Member{}
}

// sampleMember returns one more member at random; its Node is nil when SampleK were sampled.
func (s *Selection) sampleMember() fleet.Member {
	for {
		slot := s.sampleSlot()
		if slot == fleet.NoSlot {
			return fleet.Member{}
		}
		if m := s.view.At(slot); m.Node != nil {
			return m
		}
	}
}

// sampleSlot returns the slot of one more member at random, each with the same probability; NoSlot when SampleK were sampled. A member that
// has left the index meanwhile counts as sampled.
func (s *Selection) sampleSlot() uint32 {
	for s.sampled < min(int(s.view.Len), s.picker.policy.SampleK) {
		s.sampled++
		if slot := s.view.SlotOf(s.shuffledIndex(s.sampled - 1)); slot != fleet.NoSlot {
			return slot
		}
	}
	return fleet.NoSlot
}

// shuffledIndex returns the index of the member at position i of a shuffle of all members. It is called with 0, 1, 2, … in
// turn.
func (s *Selection) shuffledIndex(i int) int {
	if !s.picker.policy.Shuffle {
		return i
	}
	j := i + s.picker.intN(int(s.view.Len)-i)
	at := s.indexAt(j)
	s.swaps = append(s.swaps, swap{position: j, index: s.indexAt(i)})
	return at
}

// indexAt returns the index at a position after the swaps so far; the last swap of a position counts.
func (s *Selection) indexAt(position int) int {
	for _, w := range slices.Backward(s.swaps) {
		if w.position == position {
			return w.index
		}
	}
	return position
}
