package waiting

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
)

// classFilter decides which nodes can serve a class, if they have a free slot. It does not change.
type classFilter struct {
	class  *waitClass
	number int // of the class among those of its pool
	picker *pick.Picker
	query  pick.Query  // without the time
	node   core.NodeID // the only one; empty: any
}

// newClassFilter makes the filter of one class. The requirement is that of its direction.
func newClassFilter(division *core.Pools, pk *pick.Picker, requirement *core.Requirement, c *waitClass) *classFilter {
	f := &classFilter{class: c, picker: pk, query: pick.Query{
		Requirement: requirement, Options: &c.spec.Options, Tenant: c.spec.Tenant, Pools: core.NewPoolRule(division, &c.spec),
		Tried: c.except,
	}}
	f.node = c.spec.Options.OnlyNode()
	return f
}

// filterOf makes the filter of a class for the fleet as it is divided now.
func (c *openClasses) filterOf(class *waitClass) *classFilter {
	requirement := core.NewRequirement(class.spec.Direction, class.spec.Options.RequireTTS)
	return newClassFilter(c.fleet.Division(), c.picker, &requirement, class)
}

// reject returns why a node that serves the direction cannot serve the class; ReasonNone: it could take a job if it had a free slot.
func (f *classFilter) reject(n *fleet.Node, now fleet.Instant) core.Reason {
	if f.node != "" && n.ID() != f.node {
		return core.ReasonTried
	}
	q := f.query
	q.Now = now
	if reason := f.picker.FilterServing(&q, n); !reason.Soft() {
		return reason
	}
	return core.ReasonNone
}

// canServe reports whether a node could take a job of the class if it had a free slot.
func (f *classFilter) canServe(n *fleet.Node, now fleet.Instant) bool {
	return f.query.Requirement.Mismatch(&n.Declared().Capability) == core.ReasonNone && f.reject(n, now) == core.ReasonNone
}

// classFilters has the filters of all classes that are open in a pool. It is made once for a copy of the classes, and does not change.
type classFilters struct {
	division *core.Pools // for which it was made
	routes   []*routeFilters
	classes  []string // by the numbers of their filters
}

// routeFilters has the filters of the classes of one direction.
type routeFilters struct {
	requirement core.Requirement
	filters     []*classFilter // those that require least first: most nodes that one of them accepts are accepted by the first
}

func newClassFilters(division *core.Pools, pk *pick.Picker, classes map[string]*waitClass) *classFilters {
	type routeKey struct {
		core.Direction
		tts bool
	}
	s := &classFilters{division: division, classes: make([]string, 0, len(classes))}
	routes := make(map[routeKey]*routeFilters)
	for _, c := range classes {
		key := routeKey{c.spec.Direction, c.spec.Options.RequireTTS}
		r := routes[key]
		if r == nil {
			r = &routeFilters{requirement: core.NewRequirement(key.Direction, key.tts)}
			routes[key] = r
			s.routes = append(s.routes, r)
		}
		r.filters = append(r.filters, newClassFilter(division, pk, &r.requirement, c))
	}
	for _, r := range s.routes {
		slices.SortFunc(r.filters, func(a, b *classFilter) int {
			return cmp.Or(cmp.Compare(len(a.class.requirements), len(b.class.requirements)), strings.Compare(a.class.id, b.class.id))
		})
		for _, f := range r.filters {
			f.number = len(s.classes)
			s.classes = append(s.classes, f.class.id)
		}
	}
	return s
}

// serving iterates over the filters of the classes that a node can serve. The filters may be nil.
func (s *classFilters) serving(n *fleet.Node, now fleet.Instant) iter.Seq[*classFilter] {
	return func(yield func(*classFilter) bool) {
		if s == nil {
			return
		}
		capability := &n.Declared().Capability
		for _, r := range s.routes {
			if r.requirement.Mismatch(capability) == core.ReasonNone && !r.each(n, now, yield) {
				return
			}
		}
	}
}

// each calls a function with the filters that accept a node, which serves the direction, until it returns false. It reports false if no
// other filter of the pool is to be asked.
func (r *routeFilters) each(n *fleet.Node, now fleet.Instant, fn func(*classFilter) bool) bool {
	for _, f := range r.filters {
		switch reason := f.reject(n, now); {
		case reason == core.ReasonNone:
			if !fn(f) {
				return false
			}
		case reason.NodeWide():
			return false
		}
	}
	return true
}

// wants reports whether a request waits that a node could serve.
func (s *classFilters) wants(n *fleet.Node, now fleet.Instant) bool {
	for range s.serving(n, now) {
		return true
	}
	return false
}

// wants reports whether a request of the direction waits that a node, which serves the direction, could serve.
func (r *routeFilters) wants(n *fleet.Node, now fleet.Instant) bool {
	wanted := false
	r.each(n, now, func(*classFilter) bool {
		wanted = true
		return false
	})
	return wanted
}
