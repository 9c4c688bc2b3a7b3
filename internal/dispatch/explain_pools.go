package dispatch

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// MaxExplainedPools is the maximum number of capability pools that an explanation lists.
const MaxExplainedPools = 50

// Why a pool is not eligible for a job.
const (
	WhyTenantBound        = "tenant_bound"         // the tenant is bound to another pool
	WhyServiceNotRequired = "service_not_required" // the pool does not require a service that the job does
	WhyNoPool             = "no_pool"              // the nodes belong to no pool
)

// ExplainedPool says whether a job may run in a pool, and which nodes it has. The nodes are counted as if the job might run there.
type ExplainedPool struct {
	ID       core.PoolID // empty: the nodes that belong to no pool
	Eligible bool
	Fallback bool   // it is not eligible, and the job may run there if no eligible pool has a free slot
	Why      string // it is not eligible; empty: it is
	Service  string // that the job requires and the pool does not
	Nodes    int
	Capable  int // that could do the job, now or later
	Free     int // that could take it now
	Reason   string
}

// poolExplainer counts the nodes of an explanation by their pools.
type poolExplainer struct {
	rule    core.PoolRule
	nodes   map[core.NodeID]core.PoolID // of the nodes in view
	pools   map[core.PoolID]*ExplainedPool
	reasons map[core.PoolID]map[core.Reason]int
}

// newPoolExplainer prepares the explanation of a job. The fleet has assigned its nodes to pools already.
func newPoolExplainer(divided fleet.Divided, spec *core.Spec) *poolExplainer {
	x := &poolExplainer{
		rule: core.NewPoolRule(divided.Definition(), spec), nodes: make(map[core.NodeID]core.PoolID),
		pools: make(map[core.PoolID]*ExplainedPool), reasons: make(map[core.PoolID]map[core.Reason]int),
	}
	if divided.Definition() == nil {
		return x
	}
	for id, nodes := range divided.All() {
		for n := range nodes {
			x.nodes[n.ID()] = id
		}
	}
	return x
}

// poolOf returns the pool of a node. One that is not in view is assigned here.
func (x *poolExplainer) poolOf(n *core.Node) core.PoolID {
	id, known := x.nodes[n.ID]
	if !known && x.rule.Division != nil {
		id = x.rule.Division.Assign(n).Pool
	}
	return id
}

// restrict returns the reason for which a node is rejected with pools, from that without.
func (x *poolExplainer) restrict(pool core.PoolID, reason core.Reason) core.Reason {
	if reason != core.ReasonTenant && !x.rule.Allows(pool) {
		return core.ReasonPool
	}
	return reason
}

// add counts a node by the reason for which it is rejected, whatever its pool.
func (x *poolExplainer) add(pool core.PoolID, reason core.Reason) {
	if x.rule.Division == nil {
		return
	}
	p := x.pools[pool]
	if p == nil {
		p = &ExplainedPool{ID: pool}
		x.pools[pool], x.reasons[pool] = p, make(map[core.Reason]int)
	}
	p.Nodes++
	if !reason.Incapable() {
		p.Capable++
	}
	if reason == core.ReasonNone || reason.Soft() {
		p.Free++
	} else {
		x.reasons[pool][reason]++
	}
}

// list returns the pools, the eligible ones first, and whether there are more. An explanation for a tenant has only those that are eligible
// and have nodes which the tenant knows of, or to which it is bound: others may be named for other tenants.
func (x *poolExplainer) list(onlyTenant bool) (list []ExplainedPool, truncated bool) {
	if x.rule.Division == nil {
		return nil, false
	}
	for _, id := range append(x.rule.Division.IDs(), "") {
		p := ExplainedPool{ID: id}
		if counted := x.pools[id]; counted != nil {
			p = *counted
		}
		p.Eligible = x.rule.Eligible(id)
		switch bound := x.rule.Job.Bound && p.Eligible; {
		case id == "" && p.Nodes == 0, onlyTenant && (!p.Eligible || p.Nodes == 0 && !bound):
			continue
		}
		if !p.Eligible {
			p.Fallback = x.rule.Allows(id)
			p.Why, p.Service = x.whyNot(id)
		}
		if p.Free == 0 {
			p.Reason = core.MainReason(x.reasons[id]).OfPool()
		}
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b ExplainedPool) int { return cmp.Compare(rankPool(&a), rankPool(&b)) })
	if truncated = len(list) > MaxExplainedPools; truncated {
		list = list[:MaxExplainedPools]
	}
	return list, truncated
}

// rankPool orders pools: eligible ones, those in which the job may run after them, and the others.
func rankPool(p *ExplainedPool) int {
	switch {
	case p.Eligible:
		return 0
	case p.Fallback:
		return 1
	}
	return 2
}

// whyNot returns why a pool is not eligible, and the service that the job requires and the pool does not.
func (x *poolExplainer) whyNot(id core.PoolID) (why, service string) {
	switch {
	case x.rule.Job.Bound:
		return WhyTenantBound, ""
	case id == "":
		return WhyNoPool, ""
	}
	d, defined := x.rule.Division.Definition(id)
	for _, required := range x.rule.Options.RequiredServices {
		if !defined || !d.Covers(required) {
			return WhyServiceNotRequired, required
		}
	}
	return "", ""
}

// subjectOf returns what the text of a refusal is about: all nodes, or those of the pools in which the job may run.
func subjectOf(rule *core.PoolRule, reasons map[core.Reason]int) string {
	switch {
	case rule.Job.Bound:
		return fmt.Sprintf("No node of the pool %s", rule.Job.ID)
	case rule.Restricts() && reasons[core.ReasonPool] > 0:
		return "No node of an eligible pool"
	}
	return "No node"
}
