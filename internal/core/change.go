package core

import "slices"

// Change is the part of a declaration that a node sends in one message. What it does not contain does not change: fields that are zero, and
// lists that are nil.
type Change struct {
	Declaration
	Has    Fields                   // fields that it contains although they are zero
	States map[string]ServiceStatus // of services, by id: they override the status in Services
	Load   *Load
}

// Fields names fields of a declaration that may be zero.
type Fields struct {
	MaxJobs, Types, Region, Zone, Tenant, Pool, Key, Callback bool
}

// IsFull reports whether the change contains everything that an HTTP node must declare to get jobs.
func (c *Change) IsFull() bool {
	return c.Semantic != nil && (c.MaxJobs != 0 || c.Has.MaxJobs) && c.Callback != ""
}

// IsOfOther reports whether the change names another tenant.
func (c *Change) IsOfOther(tenant TenantID) bool {
	return (c.Tenant != "" || c.Has.Tenant) && c.Tenant != tenant
}

// ReportedLoad returns the load that the node reports.
func (c *Change) ReportedLoad() Load {
	if c.Load == nil {
		return UnknownLoad
	}
	return *c.Load
}

// Apply writes what the change contains into a declaration.
func (c *Change) Apply(d *Declaration) {
	set(&d.Health, c.Health, false)
	set(&d.MaxJobs, c.MaxJobs, c.Has.MaxJobs)
	set(&d.Types, c.Types, c.Has.Types)
	set(&d.Region, c.Region, c.Has.Region)
	set(&d.Zone, c.Zone, c.Has.Zone)
	set(&d.Tenant, c.Tenant, c.Has.Tenant)
	set(&d.Pool, c.Pool, c.Has.Pool)
	set(&d.Key, c.Key, c.Has.Key)
	set(&d.Callback, c.Callback, c.Has.Callback)
	set(&d.Owner, c.Owner, false)
	setList(&d.ASR, c.ASR)
	setList(&d.Semantic, c.Semantic)
	setList(&d.TTS, c.TTS)
	setList(&d.Models, c.Models)
	setList(&d.Services, c.Services)
	setList(&d.Features, c.Features)
	if c.Pairs != nil {
		d.Pairs, d.AnyPair = c.Pairs, false
	}
	d.Services = withStates(d.Services, c.States)
}

func set[T comparable](to *T, from T, contained bool) {
	var zero T
	if contained || from != zero {
		*to = from
	}
}

func setList[S ~[]E, E any](to *S, from S) {
	if from != nil {
		*to = from
	}
}

// withStates returns services with the status of some of them replaced. A service that is not in the list is not added:
// without a version and a type it could not be used.
func withStates(services []Service, states map[string]ServiceStatus) []Service {
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

// Declare makes the declaration of a node that has sent nothing but this change.
func (c *Change) Declare(id NodeID) Node {
	n := Node{ID: id, Declaration: Declaration{Health: HealthReady, Capability: Capability{AnyPair: true}}}
	c.Apply(&n.Declaration)
	return n
}

// IsContainedIn reports whether a node already declares everything that the change contains.
func (c *Change) IsContainedIn(n *Node) bool {
	next := *n
	c.Apply(&next.Declaration)
	return next.SameDeclaration(n)
}
