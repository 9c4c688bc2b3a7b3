package nodes

import (
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Patch is the part of a declaration that a node sends in one message. Absent fields do not change.
type Patch struct {
	Health   core.Health // 0: absent
	MaxJobs  *int
	ASR      core.LangSet // nil: absent
	Semantic core.LangSet
	TTS      core.LangSet
	Pairs    []core.Direction
	Types    *core.ServiceTypes
	Models   []string
	Services []core.Service
	States   map[string]core.ServiceStatus // of services, by id: they override the status in Services
	Features []string
	Region   *string
	Zone     *string
	Tenant   *core.TenantID
	Pool     *core.PoolID // the capability pool that the caller's key names
	Key      *string      // the name of the caller's key
	Callback *string
	Owner    *core.InstanceID // the instance to which it is connected
	Load     *core.Load
	// Connection is the number of the connection over which the patch came, 0: none. It is not part of the declaration.
	Connection uint64
	// MaxNodes is how many nodes may be registered with the key, 0: any number. It is not part of the declaration.
	MaxNodes int
	// Secret is the secret that the node shows, empty: none. It is not part of the declaration.
	Secret string
}

// Full reports whether the patch contains everything that an HTTP node must declare to get jobs.
func (p *Patch) Full() bool {
	return p.Semantic != nil && p.MaxJobs != nil && p.Callback != nil && *p.Callback != ""
}

func (p *Patch) load() core.Load {
	if p.Load == nil {
		return core.UnknownLoad
	}
	return *p.Load
}

// Apply writes the fields of the patch into a declaration.
func (p *Patch) Apply(n *core.Node) {
	c := &n.Capability
	if p.Health != 0 {
		n.Health = p.Health
	}
	set(&n.MaxJobs, p.MaxJobs)
	set(&n.Region, p.Region)
	set(&n.Zone, p.Zone)
	set(&n.Tenant, p.Tenant)
	set(&n.Pool, p.Pool)
	set(&n.Key, p.Key)
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

// withStates returns services with the status of some of them replaced. A service that is not in the list is not added:
// without a version and a type it could not be used.
func withStates(services []core.Service, states map[string]core.ServiceStatus) []core.Service {
	if len(states) == 0 {
		return services
	}
	next := slices.Clone(services)
	for i := range next {
		if status, ok := states[next[i].ID]; ok {
			next[i].Status = status
		}
	}
	return next
}

// Declare makes the declaration of a node that has sent nothing but this patch.
func (p *Patch) Declare(id core.NodeID) core.Node {
	declared := core.Node{ID: id, Health: core.HealthReady, Capability: core.Capability{AnyPair: true}}
	p.Apply(&declared)
	return declared
}

// normalise sorts the lists of the patch, as those of a declaration are.
func (p *Patch) normalise() {
	c := core.Capability{
		ASR: p.ASR, Semantic: p.Semantic, TTS: p.TTS, Pairs: p.Pairs, Models: p.Models, Services: p.Services, Features: p.Features,
	}
	c.Normalise()
	p.Models, p.Services, p.Features, p.Pairs = c.Models, c.Services, c.Features, c.Pairs
	setSorted(&p.ASR, c.ASR)
	setSorted(&p.Semantic, c.Semantic)
	setSorted(&p.TTS, c.TTS)
}

// setSorted replaces a list by its sorted form, but leaves an absent one absent.
func setSorted(to *core.LangSet, sorted core.LangSet) {
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

// isContainedIn reports whether a declaration already has everything that the patch contains.
func (p *Patch) isContainedIn(n *core.Node) bool {
	next := *n
	p.Apply(&next)
	return next.SameDeclaration(n)
}
