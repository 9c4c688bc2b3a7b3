// Package pick chooses candidates for a job: it filters the nodes of a direction, with a reason for each that is rejected,
// samples them at random, and of two prefers the one with the lower in-flight share. It only reads the fleet; it reserves
// nothing and makes no calls.
package pick

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// Policy configures a Picker.
type Policy struct {
	SampleK    int           // how many members are sampled before all are surveyed
	ScanMax    int           // how many candidates a survey returns
	StaleAfter time.Duration // a node whose last heartbeat is older is rejected
	// of two nodes with the same in-flight share, one whose last heartbeat is older is tried last; 0: either is first
	LateAfter time.Duration
	Shuffle   bool    // sample at random; false: in the order of their slots
	CPUMax    float64 // a node with a higher load is rejected, as for the next two
	GPUMax    float64
	MemoryMax float64
}

// Picker chooses candidates by a policy.
type Picker struct {
	fleet      *fleet.Fleet
	policy     Policy
	intN       func(n int) int
	selections sync.Pool
}

// New makes a picker. A nil intN uses the runtime's random generator; tests pass a seeded one.
func New(f *fleet.Fleet, policy Policy, intN func(n int) int) *Picker {
	if intN == nil {
		intN = rand.IntN
	}
	p := &Picker{fleet: f, policy: policy, intN: intN}
	p.selections.New = func() any { return &Selection{picker: p} }
	return p
}

// Query is what one job requires of a node.
type Query struct {
	Requirement *core.Requirement
	Options     *core.Options
	Tenant      core.TenantID
	Pools       core.PoolRule   // in which capability pools the job may run
	Tried       []core.NodeID   // nodes that must not get this job, mostly because they had it
	LastNode    core.NodeID     // the node of the session's last utterance, rejected with a soft reason (spread); empty: none
	Region      string          // nodes of other regions are rejected with a soft reason; empty: none are
	AvoidOwner  core.InstanceID // its nodes are rejected with a soft reason, because one of them did not acknowledge the job; empty: none
	Now         fleet.Instant
}

// Filter returns why a node is rejected for a job, ReasonNone if it passes. Reasons that it is incapable come before reasons
// that it cannot take the job now, and soft reasons come last.
func (p *Picker) Filter(q *Query, n *fleet.Node) core.Reason {
	declared := n.Declared()
	if !declared.Serves(q.Tenant) {
		return core.ReasonTenant // whatever else is true of it
	}
	if r := q.Requirement.Mismatch(&declared.Capability); r != core.ReasonNone {
		return r
	}
	return p.FilterServing(q, n)
}

// FilterServing is Filter for a node that serves the direction, as the caller has checked.
func (p *Picker) FilterServing(q *Query, n *fleet.Node) core.Reason {
	declared := n.Declared()
	if !declared.Serves(q.Tenant) {
		return core.ReasonTenant
	}
	if !q.Pools.AllowsNode(declared) { // after the direction, because it is more expensive
		return core.ReasonPool
	}
	return p.filterMember(q, n)
}

// FilterDeclared returns why a node with this declaration is incapable of the job, ReasonNone if it is capable.
func (p *Picker) FilterDeclared(q *Query, declared *core.Node) core.Reason {
	if !declared.Serves(q.Tenant) {
		return core.ReasonTenant
	}
	if r := q.Requirement.Mismatch(&declared.Capability); r != core.ReasonNone {
		return r
	}
	if !q.Pools.AllowsNode(declared) {
		return core.ReasonPool
	}
	return filterCapability(q, declared)
}

// filterMember is Filter for a member of an index of a pool in which the job may run. It serves the direction by definition.
func (p *Picker) filterMember(q *Query, n *fleet.Node) core.Reason {
	summary := n.Summary()
	if summary.Tenant() || q.hasRequirements() {
		if r := filterCapability(q, n.Declared()); r != core.ReasonNone {
			return r
		}
	}
	switch {
	case !summary.Ready():
		return notGrantable(n.Declared())
	case n.SinceSeen(q.Now) > p.policy.StaleAfter:
		return core.ReasonStale
	case !summary.Reachable():
		return core.ReasonUnreachable
	case summary.Ejected():
		return core.ReasonEjected
	case summary.Slots() == 0:
		return core.ReasonNoCapacity
	case len(q.Tried) > 0 && slices.Contains(q.Tried, n.ID()):
		return core.ReasonTried
	}
	if r := p.filterLoad(n.Load()); r != core.ReasonNone {
		return r
	}
	if summary.MaybeUnready() {
		if r := n.Unready(q.Requirement.TTS, q.Now); r != core.ReasonNone {
			return r
		}
	}
	if len(q.Options.RequiredServices) > 0 {
		if r := filterServices(q, n); r != core.ReasonNone {
			return r
		}
	}
	switch {
	case n.IsSetAside(q.Now):
		return core.ReasonSetAside
	case q.AvoidOwner != "" && q.AvoidOwner == n.Declared().Owner:
		return core.ReasonSetAside
	case q.LastNode != "" && q.LastNode == n.ID():
		return core.ReasonSpread
	case q.Region != "" && q.Region != n.Declared().Region:
		return core.ReasonPreferredRegion
	}
	return core.ReasonNone
}

// notGrantable returns why a node gets no new jobs.
func notGrantable(declared *core.Node) core.Reason {
	switch {
	case declared.Drained:
		return core.ReasonDrained
	case declared.Health == core.HealthReady && declared.Disconnected:
		return core.ReasonDisconnected
	}
	return core.ReasonNotReady
}

// hasRequirements reports whether the job requires more than its direction.
func (q *Query) hasRequirements() bool {
	o := q.Options
	return o.Region != "" || len(o.RequiredModels) > 0 || len(o.RequiredServices) > 0 || len(o.Features) > 0
}

// filterCapability returns which requirement of the job the node can never meet, ReasonNone if it can meet all.
func filterCapability(q *Query, declared *core.Node) core.Reason {
	o := q.Options
	switch {
	case !declared.Serves(q.Tenant):
		return core.ReasonTenant
	case o.Region != "" && o.Region != declared.Region:
		return core.ReasonRegion
	}
	for _, model := range o.RequiredModels {
		if !declared.HasModel(model) {
			return core.ReasonModelMissing
		}
	}
	for _, service := range o.RequiredServices {
		if installed, _ := declared.ServiceState(service); !installed {
			return core.ReasonServiceMissing
		}
	}
	for _, feature := range o.Features {
		if !declared.HasFeature(feature) {
			return core.ReasonFeatureMissing
		}
	}
	return core.ReasonNone
}

// filterServices returns why a required service that is installed cannot be used now, ReasonNone if all can.
func filterServices(q *Query, n *fleet.Node) core.Reason {
	declared := n.Declared()
	for _, service := range q.Options.RequiredServices {
		if _, ready := declared.ServiceState(service); !ready {
			return core.ReasonServiceNotReady
		}
		if !n.Usable(service, q.Now) {
			return core.ReasonMarked
		}
	}
	return core.ReasonNone
}

// filterLoad returns which resource of the node is over its limit, ReasonNone if none is. An unknown load passes.
func (p *Picker) filterLoad(l core.Load) core.Reason {
	switch {
	case l.CPU > p.policy.CPUMax:
		return core.ReasonCPU
	case l.GPU > p.policy.GPUMax:
		return core.ReasonGPU
	case l.Memory > p.policy.MemoryMax:
		return core.ReasonMemory
	}
	return core.ReasonNone
}
