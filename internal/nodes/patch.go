package nodes

import (
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Patch is what a node says of itself in one message. What it leaves out is unchanged.
type Patch struct {
	Health   core.Health // 0: not said
	MaxJobs  *int
	ASR      core.LangSet // nil: not said
	Semantic core.LangSet
	TTS      core.LangSet
	Pairs    []core.Direction
	Types    *core.ServiceTypes
	Models   []string
	Services []core.Service
	States   map[string]core.ServiceStatus // of services, by id: they win over what Services says
	Features []string
	Region   *string
	Zone     *string
	Tenant   *core.TenantID
	Callback *string
	Owner    *core.InstanceID // with whom it is connected
	Load     *core.Load
	// Connection names the connection it is said over, 0: none. It is not part of what the node declares.
	Connection uint64
}

// Full reports whether the patch says all that a node must say to be given work.
func (p *Patch) Full() bool {
	return p.Semantic != nil && p.MaxJobs != nil && p.Callback != nil && *p.Callback != ""
}

func (p *Patch) load() core.Load {
	if p.Load == nil {
		return core.UnknownLoad
	}
	return *p.Load
}

// Apply writes what the patch says into a node.
func (p *Patch) Apply(n *core.Node) {
	c := &n.Capability
	if p.Health != 0 {
		n.Health = p.Health
	}
	set(&n.MaxJobs, p.MaxJobs)
	set(&n.Region, p.Region)
	set(&n.Zone, p.Zone)
	set(&n.Tenant, p.Tenant)
	set(&n.Callback, p.Callback)
	set(&n.Owner, p.Owner)
	set(&c.Types, p.Types)
	replace(&c.ASR, p.ASR)
	replace(&c.Semantic, p.Semantic)
	replace(&c.TTS, p.TTS)
	replace(&c.Models, p.Models)
	replace(&c.Services, p.Services)
	replace(&c.Features, p.Features)
	if p.Pairs != nil {
		c.Pairs, c.AnyPair = p.Pairs, false
	}
	c.Services = withStates(c.Services, p.States)
}

// withStates is a list of services with the status of some of them replaced. A service that is not on it is not added:
// without a version and a type nothing could be decided by it.
func withStates(services []core.Service, states map[string]core.ServiceStatus) []core.Service {
	if len(states) == 0 {
		return services
	}
	next := slices.Clone(services)
	for i := range next {
		if status, said := states[next[i].ID]; said {
			next[i].Status = status
		}
	}
	return next
}

// Declare makes a node that says nothing but this of itself.
func (p *Patch) Declare(id core.NodeID) core.Node {
	declared := core.Node{ID: id, Health: core.HealthReady, Capability: core.Capability{AnyPair: true}}
	p.Apply(&declared)
	return declared
}

// normalise sorts the patch's own lists, so that they compare and search like those of a node.
func (p *Patch) normalise() {
	c := core.Capability{
		ASR: p.ASR, Semantic: p.Semantic, TTS: p.TTS, Pairs: p.Pairs, Models: p.Models, Services: p.Services, Features: p.Features,
	}
	c.Normalise()
	p.Models, p.Services, p.Features, p.Pairs = c.Models, c.Services, c.Features, c.Pairs
	keep(&p.ASR, c.ASR)
	keep(&p.Semantic, c.Semantic)
	keep(&p.TTS, c.TTS)
}

// keep takes over a sorted list, but leaves one that was not said unsaid.
func keep(to *core.LangSet, sorted core.LangSet) {
	if *to != nil {
		*to = sorted
	}
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func replace[S ~[]E, E any](to *S, from S) {
	if from != nil {
		*to = from
	}
}

// holdsFor reports whether the node already declares all that the patch says.
func (p *Patch) holdsFor(n *core.Node) bool {
	next := *n
	p.Apply(&next)
	return next.SameDeclaration(n)
}
