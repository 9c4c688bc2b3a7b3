package pick

import (
	"iter"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// Survey is the result of filtering the indexes of all pools of a group.
type Survey struct {
	// Candidates are the nodes to probe, at most ScanMax: first those that may have a free slot, in random order, then those
	// believed full, then those that were rejected for a soft reason, of which those that may have a free slot come first. These are not
	// displaced by many that are believed full.
	Candidates []fleet.Member
	// Capable is how many members are capable of the job.
	Capable int
	// Rejections counts the rejected members by reason.
	Rejections map[core.Reason]int
}

// Survey filters every member of every pool of a group, as they are now. It is the slow path before a job leaves the group: what is
// believed about occupancy only orders the candidates, and soft reasons do not reject. If the job must not run in the pools of the group,
// their members are only counted.
func (p *Picker) Survey(q Query, route *fleet.Route, group Group) Survey {
	s := p.selections.Get().(*Selection)
	s.query = q
	defer s.End()
	survey := Survey{Rejections: make(map[core.Reason]int)}
	var found surveyed
	for x := range route.Indexes() {
		eligible := s.query.Pools.Eligible(x.Pool())
		switch {
		case eligible != (group == Eligible):
		case eligible || !s.query.Pools.Restricts():
			s.surveyPool(&survey, x, &found)
		default:
			s.rejectPool(&survey, x)
		}
	}
	for _, members := range [][]fleet.Member{found.free, found.full, found.soft, found.softFull} {
		s.shuffle(members)
	}
	limit := s.picker.policy.ScanMax
	room := max(limit-len(found.free)-min(len(found.soft), limit/softPart), 0)
	found.full = found.full[:min(len(found.full), room)]
	survey.Candidates = slices.Concat(found.free, found.full, found.soft, found.softFull)
	if len(survey.Candidates) > s.picker.policy.ScanMax {
		survey.Candidates = survey.Candidates[:s.picker.policy.ScanMax]
	}
	return survey
}

// softPart is of which part of the candidates nodes that are believed full leave to those that may have a free slot and were rejected for a
// soft reason, as the nodes of another region are.
const softPart = 4

// surveyed are the candidates of some pools: those that may have a free slot, those believed full, and the same of those rejected for a
// soft reason.
type surveyed struct{ free, full, soft, softFull []fleet.Member }

// surveyPool filters every member of an index.
func (s *Selection) surveyPool(survey *Survey, index *fleet.Index, into *surveyed) {
	for m := range index.All() {
		reason := s.picker.filterMember(&s.query, m.Node)
		if !reason.Incapable() {
			survey.Capable++
		}
		switch {
		case reason != core.ReasonNone:
			survey.Rejections[reason]++
			switch {
			case !reason.Soft():
			case s.inFlightShare(m.Node) >= 1:
				into.softFull = append(into.softFull, m)
			default:
				into.soft = append(into.soft, m)
			}
		case s.inFlightShare(m.Node) >= 1:
			into.full = append(into.full, m)
		default:
			into.free = append(into.free, m)
		}
	}
}

// rejectPool counts the members of an index of a pool in which the job must not run, of which there may be many: without a look at each.
// What a tenant must not know of is counted apart.
func (s *Selection) rejectPool(survey *Survey, index *fleet.Index) {
	all := index.Len()
	known := min(index.Serving(s.query.Tenant), all)
	if known > 0 {
		survey.Rejections[core.ReasonPool] += known
	}
	if all > known {
		survey.Rejections[core.ReasonTenant] += all - known
	}
}

// Members iterates over the nodes for the direction in the pools in which a job may run, each with the reason for which it is rejected.
func (p *Picker) Members(q *Query, route *fleet.Route) iter.Seq2[fleet.Member, core.Reason] {
	return func(yield func(fleet.Member, core.Reason) bool) {
		for x := range route.Indexes() {
			if !q.Pools.Allows(x.Pool()) {
				continue
			}
			for m := range x.All() {
				if !yield(m, p.filterMember(q, m.Node)) {
					return
				}
			}
		}
	}
}

func (s *Selection) shuffle(nodes []fleet.Member) {
	if !s.picker.policy.Shuffle {
		return
	}
	for i := range len(nodes) - 1 {
		j := i + s.picker.intN(len(nodes)-i)
		nodes[i], nodes[j] = nodes[j], nodes[i]
	}
}
