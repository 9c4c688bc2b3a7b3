package core

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/lingua-scheduler/lingua/wire"
)

// Health is the health that a node declares. Only a ready node gets new jobs; a degraded one keeps those that it has.
type Health uint8

// The values of Health.
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

// MarshalText implements encoding.TextMarshaler.
func (h Health) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Health) UnmarshalText(text []byte) (err error) {
	*h, err = ParseHealth(string(text))
	return err
}

// ParseHealth parses the name of a health.
func ParseHealth(s string) (Health, error) {
	if i := slices.Index(healthNames[1:], s); i >= 0 {
		return Health(i + 1), nil
	}
	return 0, fmt.Errorf("%q is not a state of health: use ready, degraded, draining or offline", wire.Quote(s))
}

// Tri is a boolean that may be unknown.
type Tri uint8

// The three values; the zero value is Unknown.
const (
	Unknown Tri = iota
	No
	Yes
)

// TriOf converts a known boolean.
func TriOf(b bool) Tri {
	if b {
		return Yes
	}
	return No
}

// ServiceTypes are the kinds of service that a node runs. Unknown ones are derived from its lists.
type ServiceTypes struct {
	ASR, NMT, TTS, Tone, Semantic Tri
}

// ServiceStatus is the status of an installed service.
type ServiceStatus uint8

// The values of ServiceStatus; only a ready service can be used.
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

// ParseServiceStatus parses the name of a status.
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
	// ReadySince is the version of the node at which the service became ready. It is 0 for a service that was ready when the node
	// registered, and for one that is not ready. Supersede sets it; it is not part of what the node declares.
	ReadySince Version `json:",omitzero"`
}

// sameDeclared reports whether both are declared in the same way.
func (s *Service) sameDeclared(o *Service) bool {
	return s.ID == o.ID && s.Version == o.Version && s.Type == o.Type && s.Status == o.Status
}

// Capability is what a node can serve. It is immutable once it is part of a Node.
type Capability struct {
	ASR      LangSet      `json:"asr,omitempty"`
	Semantic LangSet      `json:"semantic,omitempty"`
	TTS      LangSet      `json:"tts,omitempty"`
	Pairs    []Direction  `json:"pairs,omitempty"`    // sorted; unused if AnyPair
	AnyPair  bool         `json:"any_pair,omitempty"` // the node declared no pairs
	Types    ServiceTypes `json:"types,omitzero"`
	Models   []string     `json:"models,omitempty"`   // sorted
	Services []Service    `json:"services,omitempty"` // sorted by id
	Features []string     `json:"features,omitempty"` // sorted
}

func compareDirections(a, b Direction) int {
	return cmp.Or(cmp.Compare(a.Src, b.Src), cmp.Compare(a.Tgt, b.Tgt))
}

// Normalise sorts and deduplicates the lists, so that equal capabilities compare equal and lookups can search. A list that is nil stays so.
func (c *Capability) Normalise() {
	for _, langs := range []*LangSet{&c.ASR, &c.Semantic, &c.TTS} {
		if *langs != nil {
			*langs = NewLangSet(*langs...)
		}
	}
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
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.Status, b.Status))
	})
	c.Services = slices.Compact(c.Services)
}

// SameCapability reports whether both serve the same.
func (c *Capability) SameCapability(o *Capability) bool {
	return c.AnyPair == o.AnyPair && c.Types == o.Types &&
		slices.Equal(c.ASR, o.ASR) && slices.Equal(c.Semantic, o.Semantic) && slices.Equal(c.TTS, o.TTS) &&
		slices.Equal(c.Pairs, o.Pairs) && slices.Equal(c.Models, o.Models) &&
		sameServices(c.Services, o.Services) && slices.Equal(c.Features, o.Features)
}

// sameServices reports whether both lists declare the same services.
func sameServices(a, b []Service) bool {
	return slices.EqualFunc(a, b, func(s, o Service) bool { return s.sameDeclared(&o) })
}

func (c *Capability) hasPair(d Direction) bool {
	_, ok := slices.BinarySearchFunc(c.Pairs, d, compareDirections)
	return ok
}

// HasModel reports whether a required model is installed. Models are declared as an id, or as an id, an @ and a version.
func (c *Capability) HasModel(required string) bool {
	id, conditions := CutRequired(required)
	from, _ := slices.BinarySearch(c.Models, id)
	for _, model := range c.Models[from:] {
		rest, found := strings.CutPrefix(model, id)
		switch version, versioned := strings.CutPrefix(rest, "@"); {
		case !found:
			return false
		case rest != "" && !versioned: // a longer id
		case Satisfies(version, conditions):
			return true
		}
	}
	return false
}

// HasFeature reports whether the node has the feature. Tone may be declared as a feature or as a service type.
func (c *Capability) HasFeature(name string) bool {
	_, ok := slices.BinarySearch(c.Features, name)
	return ok || name == "tone" && c.Types.Tone == Yes
}

// versions returns the installed versions of a service.
func versions(services []Service, id string) []Service {
	from, _ := slices.BinarySearchFunc(services, id, func(s Service, id string) int { return cmp.Compare(s.ID, id) })
	to := from
	for to < len(services) && services[to].ID == id {
		to++
	}
	return services[from:to]
}

// ServiceState reports whether an acceptable version of a required service is installed, and whether one of them is ready.
func (c *Capability) ServiceState(required string) (installed, ready bool) {
	id, conditions := CutRequired(required)
	all := versions(c.Services, id)
	for i := range all {
		if Satisfies(all[i].Version, conditions) {
			installed, ready = true, ready || all[i].Status == ServiceReady
		}
	}
	return installed, ready
}

// Usable reports whether an acceptable version of a required service is ready and not marked.
func (c *Capability) Usable(required string, marked func(*Service) bool) bool {
	id, conditions := CutRequired(required)
	all := versions(c.Services, id)
	for i := range all {
		if all[i].Status == ServiceReady && Satisfies(all[i].Version, conditions) && !marked(&all[i]) {
			return true
		}
	}
	return false
}

// Directions lists the directions that the node declares exactly, at most limit of them.
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

// Load is the utilisation of the machine of a node, each from 0 to 1, negative if unknown.
type Load struct {
	CPU, GPU, Memory float64
}

// UnknownLoad is the load of a node that reported none.
var UnknownLoad = Load{CPU: -1, GPU: -1, Memory: -1}

// MaxConcurrentJobs bounds the slots that a node may declare: a higher number is an error.
const MaxConcurrentJobs = 10_000

// Declaration is what a node declares. Its form as JSON is that of stores.
type Declaration struct {
	Health  Health `json:"health"`
	MaxJobs int    `json:"max"`
	Capability
	Region   string     `json:"region,omitempty"`
	Zone     string     `json:"zone,omitempty"`
	Tenant   TenantID   `json:"tenant,omitempty"`
	Pool     PoolID     `json:"pool,omitempty"`     // the capability pool that its credential names; empty: any
	Key      string     `json:"key,omitempty"`      // the name of the key with which it registered; empty: there are no credentials
	Callback string     `json:"callback,omitempty"` // URL at which an HTTP node receives its jobs
	Owner    InstanceID `json:"owner,omitempty"`    // the instance to which its WebSocket is connected; empty: none
	// SecretHash is HashSecret of the secret of its registration. A caller that knows the secret is the node.
	SecretHash string `json:"secret,omitempty"`
}

// Node is the record of a node in a store: what it declares, and what the scheduler decides. It is immutable; a change makes a new Node
// with a higher Version.
type Node struct {
	ID NodeID
	Declaration
	Epoch    Epoch
	Revision Revision
	Version  Version
	Drained  bool // set by an operator
	// Disconnected is true while the connection is lost and the grace period runs, or is silent: its jobs continue, and it gets no others.
	Disconnected bool
	// SilentSince is since when nothing has come over a connection that is open, although the node has jobs, in milliseconds on the clock
	// of the store; 0: it is not silent.
	SilentSince int64
	Admission   Admission // how many of MaxJobs may be granted
}

// HashSecret is the hash of a node's secret, which is kept in its place.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// HasSecret reports whether a secret is that of the node's registration.
func (n *Node) HasSecret(secret string) bool {
	return n.SecretHash != "" && subtle.ConstantTimeCompare([]byte(n.SecretHash), []byte(HashSecret(secret))) == 1
}

// EffectiveHealth returns the health with the drain of an operator applied.
func (n *Node) EffectiveHealth() Health {
	if n.Drained && n.Health != HealthOffline {
		return HealthDraining
	}
	return n.Health
}

// AcceptsJobs reports whether the node may get new jobs, if it has free slots.
func (n *Node) AcceptsJobs() bool { return n.EffectiveHealth() == HealthReady && !n.Disconnected }

// Slots returns how many slots may be granted: those that the node declares, with its admission applied.
func (n *Node) Slots() int { return n.Admission.Admitted(max(n.MaxJobs, 0)) }

// Ejected reports whether the node declares slots and none of them may be granted.
func (n *Node) Ejected() bool { return n.MaxJobs > 0 && n.Admission.Ejected() }

// Reachable reports whether jobs can be delivered to the node.
func (n *Node) Reachable() bool { return n.Callback != "" || n.Owner != "" }

// Serves reports whether the node serves a tenant: its own, or any if it has none.
func (n *Node) Serves(tenant TenantID) bool { return n.Tenant == "" || n.Tenant == tenant }

// SameService reports whether o serves the same requests: a selection that chose n would have chosen o.
func (n *Node) SameService(o *Node) bool {
	return n.Region == o.Region && n.Zone == o.Zone && n.Tenant == o.Tenant && n.Pool == o.Pool && n.Callback == o.Callback &&
		n.Owner == o.Owner && n.SameCapability(&o.Capability)
}

// SameDeclaration reports whether o declares the same as n, apart from epoch, revision and version.
func (n *Node) SameDeclaration(o *Node) bool {
	return n.Health == o.Health && n.Drained == o.Drained && n.Disconnected == o.Disconnected && n.SilentSince == o.SilentSince &&
		n.MaxJobs == o.MaxJobs && n.Admission.Equal(o.Admission) && n.Key == o.Key && n.SameService(o)
}

// Supersede numbers n as the successor of old: the next version, and the next revision if it serves differently. Services that are
// ready in n and were not in old are ready since this version.
func (n *Node) Supersede(old *Node) {
	n.Epoch, n.Revision, n.Version = old.Epoch, old.Revision, old.Version+1
	if !n.SameService(old) {
		n.Revision++
	}
	n.Services = withReadySince(n.Services, old.Services, n.Version)
}

// withReadySince returns services with the version of the node since which each is ready: the one that it has in old, or this one.
func withReadySince(services, old []Service, version Version) []Service {
	if len(services) == 0 {
		return services
	}
	if sameServices(services, old) {
		return old
	}
	next := slices.Clone(services)
	for i := range next {
		s := &next[i]
		s.ReadySince = 0
		if s.Status != ServiceReady {
			continue
		}
		s.ReadySince = version
		for _, was := range versions(old, s.ID) {
			if was.Version == s.Version && was.Status == ServiceReady {
				s.ReadySince = was.ReadySince
			}
		}
	}
	return next
}
