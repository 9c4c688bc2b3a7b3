package core

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lingua-scheduler/lingua/wire"
)

// Health is what a node says of itself. Only a ready node is granted work; a degraded one keeps what it has.
type Health uint8

// The states of health.
const (
	HealthReady Health = iota + 1
	HealthDegraded
	HealthDraining
	HealthOffline
)

var healthNames = [...]string{HealthReady: "ready", HealthDegraded: "degraded", HealthDraining: "draining", HealthOffline: "offline"}

func (h Health) String() string {
	if int(h) < len(healthNames) {
		return healthNames[h]
	}
	return ""
}

// ParseHealth reads a state of health.
func ParseHealth(s string) (Health, error) {
	if i := slices.Index(healthNames[1:], s); i >= 0 {
		return Health(i + 1), nil
	}
	return 0, fmt.Errorf("%q is not a state of health: use ready, degraded, draining or offline", wire.Quote(s))
}

// Tri is a fact that may be unknown.
type Tri uint8

// The three values; the zero value is Unknown.
const (
	Unknown Tri = iota
	No
	Yes
)

// TriOf makes a known fact.
func TriOf(b bool) Tri {
	if b {
		return Yes
	}
	return No
}

// Types says which kinds of service a node runs. What it leaves unknown is derived from its lists.
type ServiceTypes struct {
	ASR, NMT, TTS, Tone, Semantic Tri
}

// ServiceStatus is where an installed service is in its life.
type ServiceStatus uint8

// The states of a service; only a ready one can be used.
const (
	ServiceReady ServiceStatus = iota + 1
	ServiceDownloading
	ServiceVerifying
	ServiceInstalling
	ServiceStopped
	ServiceError
)

var serviceStatusNames = [...]string{
	ServiceReady: "ready", ServiceDownloading: "downloading", ServiceVerifying: "verifying",
	ServiceInstalling: "installing", ServiceStopped: "stopped", ServiceError: "error",
}

func (s ServiceStatus) String() string {
	if int(s) < len(serviceStatusNames) {
		return serviceStatusNames[s]
	}
	return ""
}

// ParseServiceStatus reads the status of a service.
func ParseServiceStatus(s string) (ServiceStatus, error) {
	if i := slices.Index(serviceStatusNames[1:], s); i >= 0 {
		return ServiceStatus(i + 1), nil
	}
	return 0, fmt.Errorf("%q is not a service status: use ready, downloading, verifying, installing, stopped or error", wire.Quote(s))
}

// Service is one installed service package.
type Service struct {
	ID      string
	Version string
	Type    string
	Status  ServiceStatus
}

// Capability is what a node can do. It is immutable once it is part of a Node.
type Capability struct {
	ASR, Semantic, TTS LangSet
	Pairs              []Direction // sorted; meaningless when AnyPair
	AnyPair            bool        // the node declared no pairs
	Types              ServiceTypes
	Models             []string  // sorted
	Services           []Service // sorted by id
	Features           []string  // sorted
}

func compareDirections(a, b Direction) int {
	return cmp.Or(cmp.Compare(a.Src, b.Src), cmp.Compare(a.Tgt, b.Tgt))
}

// Normalise sorts and deduplicates the lists, so that equal capabilities compare equal and lookups can search.
func (c *Capability) Normalise() {
	c.ASR, c.Semantic, c.TTS = NewLangSet(c.ASR...), NewLangSet(c.Semantic...), NewLangSet(c.TTS...)
	if c.AnyPair {
		c.Pairs = nil
	}
	slices.SortFunc(c.Pairs, compareDirections)
	c.Pairs = slices.Compact(c.Pairs)
	slices.Sort(c.Models)
	c.Models = slices.Compact(c.Models)
	slices.Sort(c.Features)
	c.Features = slices.Compact(c.Features)
	slices.SortFunc(c.Services, func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Status, b.Status))
	})
	c.Services = slices.Compact(c.Services)
}

// Equal reports whether both can do the same.
func (c *Capability) Equal(o *Capability) bool {
	return c.AnyPair == o.AnyPair && c.Types == o.Types &&
		slices.Equal(c.ASR, o.ASR) && slices.Equal(c.Semantic, o.Semantic) && slices.Equal(c.TTS, o.TTS) &&
		slices.Equal(c.Pairs, o.Pairs) && slices.Equal(c.Models, o.Models) &&
		slices.Equal(c.Services, o.Services) && slices.Equal(c.Features, o.Features)
}

func (c *Capability) hasPair(d Direction) bool {
	_, ok := slices.BinarySearchFunc(c.Pairs, d, compareDirections)
	return ok
}

// HasModel reports whether the model is installed.
func (c *Capability) HasModel(id string) bool {
	_, ok := slices.BinarySearch(c.Models, id)
	return ok
}

// HasFeature reports whether the node offers the feature. Tone may be declared either way.
func (c *Capability) HasFeature(name string) bool {
	_, ok := slices.BinarySearch(c.Features, name)
	return ok || name == "tone" && c.Types.Tone == Yes
}

// ServiceState reports whether the service is installed and whether some version of it is ready.
func (c *Capability) ServiceState(id string) (installed, ready bool) {
	i, _ := slices.BinarySearchFunc(c.Services, id, func(s Service, id string) int { return cmp.Compare(s.ID, id) })
	for ; i < len(c.Services) && c.Services[i].ID == id; i++ {
		installed = true
		ready = ready || c.Services[i].Status == ServiceReady
	}
	return installed, ready
}

// Directions lists the directions the node declares, to the letter, at most limit of them.
func (c *Capability) Directions(limit int) []Direction {
	candidates := c.Pairs
	if c.AnyPair {
		candidates = nil
		targets := NewLangSet(slices.Concat(c.Semantic, c.TTS)...)
		for _, src := range c.Semantic {
			for _, tgt := range targets {
				candidates = append(candidates, Direction{src, tgt})
			}
		}
	}
	var declared []Direction
	for _, d := range candidates {
		exact := Requirement{Direction: d, src: d.Src.lookup(), tgt: []Lang{d.Tgt}}
		if len(declared) < limit && d.Src != d.Tgt && exact.Mismatch(c) == ReasonNone {
			declared = append(declared, d)
		}
	}
	return declared
}

// Load is how busy a node says its machine is, each from 0 to 1, negative when unknown.
type Load struct {
	CPU, GPU, Memory float64
}

// UnknownLoad is the load of a node that reported none.
var UnknownLoad = Load{CPU: -1, GPU: -1, Memory: -1}

// MaxConcurrentJobs bounds what a node may declare: beyond it the number is a mistake.
const MaxConcurrentJobs = 10_000

// Node is a node as the store knows it. A Node is never changed in place; a change makes a new one with a
// higher Version.
type Node struct {
	ID       NodeID
	Epoch    Epoch
	Revision Revision
	Version  Version
	Health   Health // as the node says
	Drained  bool   // as the operator says
	// Disconnected says that the node's connection was lost and is awaited: its jobs go on, and it gets no others.
	Disconnected bool
	MaxJobs      int
	Capability   Capability
	Region       string
	Zone         string
	Tenant       TenantID
	Callback     string     // where an HTTP node takes its jobs
	Owner        InstanceID // with which it is connected by its socket; empty: with none
}

// Standing is the health that counts: the operator's drain wins over what the node says.
func (n *Node) EffectiveHealth() Health {
	if n.Drained && n.Health != HealthOffline {
		return HealthDraining
	}
	return n.Health
}

// Grantable reports whether the node may be given new work, if it has room.
func (n *Node) AcceptsJobs() bool { return n.EffectiveHealth() == HealthReady && !n.Disconnected }

// Reachable reports whether there is a way to hand the node a job.
func (n *Node) Reachable() bool { return n.Callback != "" || n.Owner != "" }

// SameService reports whether o does the same work for the same people, so that whoever chose one would
// have chosen the other.
func (n *Node) SameService(o *Node) bool {
	return n.Region == o.Region && n.Zone == o.Zone && n.Tenant == o.Tenant && n.Callback == o.Callback &&
		n.Owner == o.Owner && n.Capability.Equal(&o.Capability)
}

// SameAs reports whether o declares the same as n, whatever its epoch, revision and version.
func (n *Node) SameDeclaration(o *Node) bool {
	return n.Health == o.Health && n.Drained == o.Drained && n.Disconnected == o.Disconnected && n.MaxJobs == o.MaxJobs && n.SameService(o)
}

// Follow makes n the successor of old: its version is one more, its revision too if it serves differently.
func (n *Node) Supersede(old *Node) {
	n.Epoch, n.Revision, n.Version = old.Epoch, old.Revision, old.Version+1
	if !n.SameService(old) {
		n.Revision++
	}
}
