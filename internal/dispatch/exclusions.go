package dispatch

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// examples collects nodes that are no candidates of one request, as examples for operators. A nil one collects nothing.
type examples struct {
	into  *telemetry.Exclusions
	at    time.Time
	count map[core.Reason]int
}

// beginExamples returns where examples of a request that no node of the sample could take are collected; nil if others were collected a
// moment ago. It begins with the nodes that the filters reject, and those that are silent.
func (s *selector) beginExamples(q *pick.Query, route *fleet.Route) *examples {
	now := time.Now()
	if !s.metrics.Exclusions.Due(now) {
		return nil
	}
	e := &examples{into: s.metrics.Exclusions, at: now, count: make(map[core.Reason]int)}
	for m, reason := range s.picker.Members(q, route) {
		if reason != core.ReasonNone && !reason.Soft() {
			e.add(reason, m.ID())
		}
	}
	for x := range route.Indexes() {
		if !q.Pools.Allows(x.Pool()) {
			e.addOutside(x, q.Tenant)
		}
	}
	for n := range s.fleet.Silent() {
		if s.picker.FilterDeclared(q, n) == core.ReasonNone {
			e.add(core.ReasonStale, n.ID)
		}
	}
	return e
}

// addOutside adds nodes of a pool in which the job must not run.
func (e *examples) addOutside(x *fleet.Index, tenant core.TenantID) {
	for m := range x.All() {
		reason := core.ReasonPool
		if !m.Declared().Serves(tenant) {
			reason = core.ReasonTenant
		}
		if e.add(reason, m.ID()); e.count[reason] >= telemetry.MaxExamples {
			return
		}
	}
}

// add adds an example, unless there are enough for the reason.
func (e *examples) add(reason core.Reason, node core.NodeID) {
	if e == nil {
		return
	}
	if e.count[reason]++; e.count[reason] <= telemetry.MaxExamples {
		e.into.Add(string(reason), string(node), e.at)
	}
}
