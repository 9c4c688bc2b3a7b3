package scale

import (
	"math/rand/v2"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

// policy is the policy of the default configuration.
var policy = pick.Policy{
	SampleK: 20, ScanMax: 512, StaleAfter: 15 * time.Second, LateAfter: 10 * time.Second, Shuffle: true, CPUMax: 0.95, GPUMax: 0.98, MemoryMax: 0.95,
}

// maxSampledPools is in how many pools a sample is tried, as in package dispatch.
const maxSampledPools = 8

// selector selects nodes as the selector of package dispatch does, with the slots of the model.
type selector struct {
	fleet       *fleet.Fleet
	picker      *pick.Picker
	ledger      *ledger
	open        *openClasses
	rng         *rand.Rand
	surveyEvery int
	surveys     surveyCounts
}

// surveyCounts counts the surveys of the whole fleet.
type surveyCounts struct {
	all, found int // found: those that found a free slot
	made       int // by package pick; the others were drawn
	missed     int // by package pick, that found no slot though a capable node has one
	wrong      int // of these, those that could probe every capable node
}

// search is a selection that is being made.
type search struct {
	request *request
	query   pick.Query
	route   *fleet.Route
	waiting *waitingFor
}

// request is what a kind of utterance requires.
type request struct {
	spec      core.Spec
	direction int
	region    int
	class     *class
}

// selectNode reserves a slot of a node; nil: all are full. A node that had the utterance does not get it again.
func (s *selector) selectNode(r *request, tried []core.NodeID) *node {
	x := search{request: r, route: s.fleet.Route(r.spec.Direction, false), waiting: s.open.waitingFor(s.fleet.Now())}
	o := &r.spec.Options
	x.query = pick.Query{
		Requirement: x.route.Requirement, Options: o, Tenant: r.spec.Tenant, Pools: core.NewPoolRule(x.route.Division, &r.spec), Tried: tried, Now: s.fleet.Now(),
	}
	near := core.RestrictionOf(o)
	near.Region = o.PreferredRegion
	sampled := [...]*fleet.Route{s.fleet.RestrictedRoute(r.spec.Direction, false, &near), x.route}
	for _, group := range [...]pick.Group{pick.Eligible, pick.Others} {
		for i, route := range sampled {
			if x.query.Region = ""; i == 0 {
				x.query.Region = o.PreferredRegion
			}
			if n := s.selectSampled(&x, route, group); n != nil {
				return n
			}
		}
		if n := s.selectAny(&x, group); n != nil {
			return n
		}
	}
	return nil
}

// selectSampled tries random samples of the nodes of one pool of a group after the other.
func (s *selector) selectSampled(x *search, route *fleet.Route, group pick.Group) *node {
	selection := s.picker.Select(x.query, route.For(x.query.Tenant), group, "")
	defer selection.End()
	for range maxSampledPools {
		if _, ok := selection.NextPool(); !ok {
			break
		}
		for m := selection.Next(); m.Node != nil; m = selection.Next() {
			if n := s.reserve(x, m.Node); n != nil {
				return n
			}
			selection.Reject(m.ID(), core.ReasonFull)
		}
	}
	return nil
}

// reserve asks the ledger for a slot of a node, unless others wait for it.
func (s *selector) reserve(x *search, view *fleet.Node) *node {
	if x.waiting.wants(view) {
		return nil
	}
	n := view.Handle().(*node)
	view.BeginJob()
	granted := s.ledger.reserve(n)
	if !granted {
		view.EndJob()
	}
	s.fleet.ObserveFree(view, max(n.free(), 0), x.query.Now)
	if !granted {
		return nil
	}
	return n
}

// selectAny tries all nodes of a group. A survey of many nodes takes long, so most are drawn from what the ledger knows.
func (s *selector) selectAny(x *search, group pick.Group) *node {
	if group != pick.Eligible {
		return nil // every node is in a pool that is eligible, or in one in which the job must not run
	}
	s.surveys.all++
	var n *node
	if s.surveys.all%s.surveyEvery == 0 {
		n = s.survey(x)
	} else {
		n = s.drawSurvey(x)
	}
	if n != nil {
		s.surveys.found++
	}
	return n
}

// survey is the survey of package pick: it probes the candidates in their order.
func (s *selector) survey(x *search) *node {
	s.surveys.made++
	q := x.query
	q.Region = q.Options.PreferredRegion
	survey := s.picker.Survey(q, x.route, pick.Eligible)
	for _, m := range survey.Candidates {
		n := m.Handle().(*node)
		s.fleet.Observe(m.Node, n.reserved, n.declared.MaxJobs, q.Now)
		if n.free() > 0 {
			if n := s.reserve(x, m.Node); n != nil {
				return n
			}
		}
	}
	near, capable := s.freeFor(x, true)
	far, others := s.freeFor(x, false)
	if near+far > 0 {
		s.surveys.missed++
		if capable+others <= policy.ScanMax {
			s.surveys.wrong++
		}
	}
	return nil
}

// freeFor counts the nodes that have a slot for a request and the capable ones, in the preferred region or in the others.
func (s *selector) freeFor(x *search, near bool) (free, capable int) {
	for _, g := range s.ledger.groups {
		if !x.request.allows(g) || (g.region == x.request.region) != near {
			continue
		}
		capable += g.alive
		if g.isFree(x) {
			free += len(g.free)
		}
	}
	return free, capable
}

// isFree reports whether nodes of the group have a free slot that nobody waits for. What one of them can serve all can.
func (g *group) isFree(x *search) bool { return len(g.free) > 0 && !x.waiting.wants(g.free[0].view) }

// allows reports whether the nodes of a group can serve a request.
func (r *request) allows(g *group) bool {
	return g.serves[r.direction] && (r.class.pool == "" || r.class.pool == g.pool)
}

// drawSurvey is what a survey finds if the view is right about every node: nodes of the preferred region that have a free slot; then, if fewer
// nodes of the region are full than a survey may probe, others. It reserves a slot of one of them.
func (s *selector) drawSurvey(x *search) *node {
	free, capable := s.freeFor(x, true)
	if free > 0 {
		return s.drawFree(x, true, free)
	}
	left := policy.ScanMax - capable
	if free, capable = s.freeFor(x, false); left > 0 && s.isAmong(free, capable, left) {
		return s.drawFree(x, false, free)
	}
	return nil
}

// isAmong reports whether one of some nodes with a free slot is among those that are probed, if these are chosen at random of all.
func (s *selector) isAmong(free, all, probed int) bool {
	if all <= probed {
		return free > 0
	}
	for range probed {
		if s.rng.IntN(all) < free {
			return true
		}
	}
	return false
}

// drawFree reserves a slot of a random node that has a free one.
func (s *selector) drawFree(x *search, near bool, free int) *node {
	i := s.rng.IntN(free)
	for _, g := range s.ledger.groups {
		if !x.request.allows(g) || (g.region == x.request.region) != near || !g.isFree(x) {
			continue
		}
		if i < len(g.free) {
			return s.reserve(x, g.free[i].view)
		}
		i -= len(g.free)
	}
	return nil
}

// reserveOffered reserves a slot of the node that a waiter was offered.
func (s *selector) reserveOffered(r *request, n *node) bool {
	if n.view == nil {
		return false
	}
	route := s.fleet.Route(r.spec.Direction, false)
	q := pick.Query{Requirement: route.Requirement, Options: &r.spec.Options, Tenant: r.spec.Tenant, Pools: core.NewPoolRule(route.Division, &r.spec), Now: s.fleet.Now()}
	if reason := s.picker.Filter(&q, n.view); reason != core.ReasonNone && !reason.Soft() {
		return false
	}
	return s.reserve(&search{query: q}, n.view) != nil
}
