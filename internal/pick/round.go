package pick

import (
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// Round is one selection. It draws members of a pool at random without replacement, no more than it needs,
// and offers them in the order to be tried: of each two that pass and seem to have room, the less taken
// first. Least-of-many on numbers that are a little old would send everybody to the same node; two choices
// do not.
type Round struct {
	picker  *Picker
	query   Query
	members *fleet.Members
	drawn   int
	swaps   []swap
	second  fleet.Member // passed, not yet offered
}

// swap is one displaced place of a shuffle that is carried out only as far as it is looked at.
type swap struct{ place, index int }

// Begin starts a selection. Give the round back with End.
func (p *Picker) Begin(q Query, members *fleet.Members) *Round {
	r := p.rounds.Get().(*Round)
	r.query, r.members = q, members
	return r
}

// End gives the round back; it must not be used any more.
func (r *Round) End() {
	r.swaps = r.swaps[:0]
	r.drawn, r.members, r.query = 0, nil, Query{}
	r.second = fleet.Member{}
	r.picker.rounds.Put(r)
}

// Next offers the next node to try; its Node is nil when the sample is used up.
func (r *Round) Next() fleet.Member {
	if first := r.second; first.Node != nil {
		r.second = fleet.Member{}
		return first
	}
	// Both are sampled and fetched before either is looked at, so that the waits for memory overlap.
	a, b := r.sample(), r.sample()
	a.Prefetch()
	b.Prefetch()
	first, second := r.pass(a), r.pass(b)
	if first.Node == nil {
		first, second = second, fleet.Member{}
	}
	if first.Node == nil {
		if first = r.draw(); first.Node == nil {
			return first
		}
	}
	if second.Node == nil {
		second = r.draw()
	}
	if second.Node != nil && r.share(second.Node) < r.share(first.Node) {
		first, second = second, first
	}
	r.second = second
	return first
}

func (r *Round) share(n *fleet.Node) float64 { return r.picker.fleet.Utilization(n, r.query.Now) }

// pass returns the member if it passes the filters and is believed to have room, else none.
func (r *Round) pass(m fleet.Member) fleet.Member {
	if m.Node != nil && r.picker.memberObjection(&r.query, m.Node) == core.ReasonNone && r.share(m.Node) < 1 {
		return m
	}
	return fleet.Member{}
}

// draw samples until a member passes.
func (r *Round) draw() fleet.Member {
	for m := r.sample(); m.Node != nil; m = r.sample() {
		if m = r.pass(m); m.Node != nil {
			return m
		}
	}
	return fleet.Member{}
}

// sample takes one more member at random; its Node is nil when enough were taken.
func (r *Round) sample() fleet.Member {
	if r.drawn >= min(r.members.Len(), r.picker.policy.SampleK) {
		return fleet.Member{}
	}
	m := r.members.At(r.shuffled(r.drawn))
	r.drawn++
	return m
}

// shuffled is what stands at the i-th place of a shuffle of all members. It is asked for 0, 1, 2, … in turn.
func (r *Round) shuffled(i int) int {
	if !r.picker.policy.Shuffle {
		return i
	}
	j := i + r.picker.intN(r.members.Len()-i)
	at := r.at(j)
	r.swaps = append(r.swaps, swap{place: j, index: r.at(i)})
	return at
}

// at is what stands at a place after the swaps so far; the last swap of a place counts.
func (r *Round) at(place int) int {
	for _, s := range slices.Backward(r.swaps) {
		if s.place == place {
			return s.index
		}
	}
	return place
}

// Survey is what a look at a whole pool found.
type Survey struct {
	// Rest are the nodes worth asking the ledger about, at most ScanMax: first those that may have room in
	// some order, then those believed full, then those against which only a preference speaks.
	Rest []fleet.Member
	// Capable is how many members could ever serve the job.
	Capable int
	// Objections counts the members by what speaks against them.
	Objections map[core.Reason]int
}

// Survey looks at every member. It is the slow way, taken before a refusal: what is believed about
// fullness only orders, and preferences yield.
func (r *Round) Survey() Survey {
	s := Survey{Objections: make(map[core.Reason]int)}
	var room, full, soft []fleet.Member
	for m := range r.members.All() {
		reason := r.picker.memberObjection(&r.query, m.Node)
		if !reason.Incapable() {
			s.Capable++
		}
		switch {
		case reason != core.ReasonNone:
			s.Objections[reason]++
			if reason.Soft() {
				soft = append(soft, m)
			}
		case r.share(m.Node) >= 1:
			full = append(full, m)
		default:
			room = append(room, m)
		}
	}
	for _, group := range [][]fleet.Member{room, full, soft} {
		r.shuffle(group)
		s.Rest = append(s.Rest, group...)
	}
	if len(s.Rest) > r.picker.policy.ScanMax {
		s.Rest = s.Rest[:r.picker.policy.ScanMax]
	}
	return s
}

func (r *Round) shuffle(nodes []fleet.Member) {
	if !r.picker.policy.Shuffle {
		return
	}
	for i := range len(nodes) - 1 {
		j := i + r.picker.intN(len(nodes)-i)
		nodes[i], nodes[j] = nodes[j], nodes[i]
	}
}
