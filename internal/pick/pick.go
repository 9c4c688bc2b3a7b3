// Package pick decides who gets a job: it filters a direction's nodes with a reason for each that is passed
// over, samples them at random, and of two prefers the less taken. It is pure over what fleet believes; it
// reserves nothing and calls nobody.
package pick

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// Policy is how nodes are chosen.
type Policy struct {
	SampleK    int           // how many members are drawn before the search widens
	ScanMax    int           // how many nodes the wider search asks
	StaleAfter time.Duration // a heartbeat older than this does not count
	Shuffle    bool          // draw at random; false walks the pool in its own order
	CPUMax     float64
	GPUMax     float64
	MemoryMax  float64
}

// Picker chooses nodes by a policy.
type Picker struct {
	fleet  *fleet.Fleet
	policy Policy
	intN   func(n int) int
	rounds sync.Pool
}

// New makes a picker. A nil intN draws from the runtime's own generator; tests pass a seeded one.
func New(f *fleet.Fleet, policy Policy, intN func(n int) int) *Picker {
	if intN == nil {
		intN = rand.IntN
	}
	p := &Picker{fleet: f, policy: policy, intN: intN}
	p.rounds.New = func() any { return &Round{picker: p} }
	return p
}

// Query is what one job asks of a node.
type Query struct {
	Requirement *core.Requirement
	Options     *core.Options
	Tenant      core.TenantID
	Tried       []core.NodeID   // nodes that had this job before
	Avoid       core.NodeID     // the node of the session's last utterance, when utterances are to be spread
	Exclude     core.InstanceID // whose nodes are better left alone, because one of them did not confirm the job
	Now         fleet.Instant
}

// Objection says why a node should not get the job, ReasonNone when nothing speaks against it. What it
// could never do comes before what it cannot do now, and preferences come last.
func (p *Picker) Objection(q *Query, n *fleet.Node) core.Reason {
	if r := q.Requirement.Mismatch(&n.Declared().Capability); r != core.ReasonNone {
		return r
	}
	return p.memberObjection(q, n)
}

// Never says what a node that declares this lacks for good, ReasonNone when it could do the job some day.
func (p *Picker) Never(q *Query, declared *core.Node) core.Reason {
	if r := q.Requirement.Mismatch(&declared.Capability); r != core.ReasonNone {
		return r
	}
	return incapable(q, declared)
}

// memberObjection is Objection for a member of the direction's pool, which serves it by definition.
func (p *Picker) memberObjection(q *Query, n *fleet.Node) core.Reason {
	brief := n.Summary()
	if brief.Tenant() || q.demanding() {
		if r := incapable(q, n.Declared()); r != core.ReasonNone {
			return r
		}
	}
	switch {
	case !brief.Ready():
		return ungrantable(n.Declared())
	case n.SinceSeen(q.Now) > p.policy.StaleAfter:
		return core.ReasonStale
	case !brief.Reachable():
		return core.ReasonUnreachable
	case brief.MaxJobs() == 0:
		return core.ReasonNoCapacity
	case len(q.Tried) > 0 && slices.Contains(q.Tried, n.ID()):
		return core.ReasonTried
	}
	if r := p.overloaded(n.Load()); r != core.ReasonNone {
		return r
	}
	if brief.MaybeUnready() {
		if r := n.Unready(q.Requirement.TTS, q.Now); r != core.ReasonNone {
			return r
		}
	}
	if len(q.Options.RequiredServices) > 0 {
		if r := unavailable(q, n); r != core.ReasonNone {
			return r
		}
	}
	switch {
	case n.IsSetAside(q.Now):
		return core.ReasonSetAside
	case q.Exclude != "" && q.Exclude == n.Declared().Owner:
		return core.ReasonSetAside
	case q.Avoid != "" && q.Avoid == n.ID():
		return core.ReasonSpread
	}
	return core.ReasonNone
}

// ungrantable says why a node may be given nothing new.
func ungrantable(declared *core.Node) core.Reason {
	switch {
	case declared.Drained:
		return core.ReasonDrained
	case declared.Health == core.HealthReady && declared.Disconnected:
		return core.ReasonDisconnected
	}
	return core.ReasonNotReady
}

// demanding reports whether the job asks for more than its direction.
func (q *Query) demanding() bool {
	o := q.Options
	return o.Region != "" || len(o.RequiredModels) > 0 || len(o.RequiredServices) > 0 || len(o.Features) > 0
}

// incapable says what the node lacks for good.
func incapable(q *Query, declared *core.Node) core.Reason {
	o := q.Options
	switch {
	case declared.Tenant != "" && declared.Tenant != q.Tenant:
		return core.ReasonTenant
	case o.Region != "" && o.Region != declared.Region:
		return core.ReasonRegion
	}
	for _, model := range o.RequiredModels {
		if !declared.Capability.HasModel(model) {
			return core.ReasonModelMissing
		}
	}
	for _, service := range o.RequiredServices {
		if installed, _ := declared.Capability.ServiceState(service); !installed {
			return core.ReasonServiceMissing
		}
	}
	for _, feature := range o.Features {
		if !declared.Capability.HasFeature(feature) {
			return core.ReasonFeatureMissing
		}
	}
	return core.ReasonNone
}

// unavailable says which required service is installed but cannot be used now.
func unavailable(q *Query, n *fleet.Node) core.Reason {
	declared := n.Declared()
	for _, service := range q.Options.RequiredServices {
		if _, ready := declared.Capability.ServiceState(service); !ready {
			return core.ReasonServiceNotReady
		}
		if n.Marked(service, q.Now) {
			return core.ReasonMarked
		}
	}
	return core.ReasonNone
}

// overloaded says which resource of the node is over its limit. An unknown one passes.
func (p *Picker) overloaded(l core.Load) core.Reason {
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
