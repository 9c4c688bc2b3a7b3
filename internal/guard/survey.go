package guard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/modelhub"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// maxListed bounds each list of a snapshot.
	maxListed = 200
	// maxCounted bounds the services, and the models, that a survey counts by name: nodes may declare any.
	maxCounted = 10_000
)

// survey has what a pass over all nodes counts.
type survey struct {
	nodes    wire.StatsNodes
	coverage wire.StatsCoverage
	compute  wire.StatsCompute
}

// surveyFleet counts the nodes of a fleet, and those that serve each direction. The catalog, ordered by id, has the names of services.
func surveyFleet(f *fleet.Fleet, catalog []modelhub.Service, directions []core.Direction) *survey {
	s := &surveyor{fleet: f, now: f.Now(), services: make(map[core.Service]*wire.ServiceUse), models: make(map[string]*wire.ModelUse)}
	s.wanted = slices.Clone(directions)
	for n := range f.All() {
		s.addDeclared(n.Declared())
	}
	s.requirements = make([]core.Requirement, len(s.wanted))
	s.coverage = make([]wire.DirectionCoverage, len(s.wanted))
	for i, d := range s.wanted {
		s.requirements[i] = core.NewRequirement(d, false)
		s.coverage[i] = wire.DirectionCoverage{SrcLang: string(d.Src), TgtLang: string(d.Tgt)}
	}
	for n := range f.All() {
		s.count(n)
	}
	for range f.Silent() {
		s.nodes.Total++
		s.nodes.Offline++
	}
	s.nodes.CountedMS = time.Now().UnixMilli()
	result := &survey{nodes: s.nodes}
	result.coverage = s.sortCoverage()
	result.compute.Services, result.compute.OtherServices = mostInstalled(s.services, s.otherServices, func(u *wire.ServiceUse) (int, string) { return u.Installed, u.ServiceID + "@" + u.Version })
	s.addCatalog(&result.compute, catalog)
	result.compute.Models, result.compute.OtherModels = mostInstalled(s.models, s.otherModels, func(u *wire.ModelUse) (int, string) { return u.Installed, u.ModelID })
	return result
}

// surveyor counts nodes.
type surveyor struct {
	fleet         *fleet.Fleet
	now           fleet.Instant
	wanted        []core.Direction
	requirements  []core.Requirement
	coverage      []wire.DirectionCoverage
	nodes         wire.StatsNodes
	services      map[core.Service]*wire.ServiceUse // by id, version and type
	models        map[string]*wire.ModelUse
	otherServices int
	otherModels   int
}

// addDeclared adds the directions that a node declares, while there is room.
func (s *surveyor) addDeclared(declared *core.Node) {
	if len(s.wanted) >= maxListed {
		return
	}
	for _, d := range declared.Capability.Directions(maxListed - len(s.wanted)) {
		if !slices.Contains(s.wanted, d) {
			s.wanted = append(s.wanted, d)
		}
	}
}

// count counts one node.
func (s *surveyor) count(n *fleet.Node) {
	declared := n.Declared()
	slots := n.Summary().Slots()
	s.nodes.Total++
	if declared.Owner != "" {
		s.nodes.Connected++
	}
	ready := declared.AcceptsJobs() && declared.Reachable() && !declared.Ejected()
	switch health := declared.EffectiveHealth(); {
	case declared.Ejected():
		s.nodes.Ejected++
	case ready:
		s.nodes.Ready++
		s.nodes.Slots += slots
		s.nodes.UsedSlots += min(s.used(n), slots)
	case health == core.HealthDraining:
		s.nodes.Draining++
	case health == core.HealthOffline:
		s.nodes.Offline++
	case declared.Disconnected:
		s.nodes.Disconnected++
	default:
		s.nodes.Degraded++
	}
	s.countInstalled(n, declared, ready, slots)
	if !ready || n.Unready(false, s.now) != core.ReasonNone {
		return
	}
	for i := range s.requirements {
		if s.requirements[i].Mismatch(&declared.Capability) == core.ReasonNone {
			s.coverage[i].Ready++
			s.coverage[i].Slots += slots
		}
	}
}

// used returns how many slots of a node are in use, as far as that is known.
func (s *surveyor) used(n *fleet.Node) int {
	used, _ := s.fleet.InFlightWithin(n, s.now, usedValid)
	return used
}

// countInstalled counts the services and models of a node.
func (s *surveyor) countInstalled(n *fleet.Node, declared *core.Node, ready bool, slots int) {
	for i := range declared.Capability.Services {
		service := &declared.Capability.Services[i]
		key := core.Service{ID: service.ID, Version: service.Version, Type: service.Type}
		use := s.services[key]
		if use == nil {
			if len(s.services) >= maxCounted {
				s.otherServices++
				continue
			}
			use = &wire.ServiceUse{ServiceID: service.ID, Version: service.Version, Type: service.Type}
			s.services[key] = use
		}
		use.Installed++
		if ready && service.Status == core.ServiceReady && !n.Marked(service, s.now) {
			use.Ready++
			use.Slots += slots
		}
	}
	for _, model := range declared.Capability.Models {
		use := s.models[model]
		if use == nil {
			if len(s.models) >= maxCounted {
				s.otherModels++
				continue
			}
			use = &wire.ModelUse{ModelID: model}
			s.models[model] = use
		}
		use.Installed++
		if ready {
			use.Ready++
			use.Slots += slots
		}
	}
}

// addCatalog adds what the catalog has about the installed services, and lists those that no node has.
func (s *surveyor) addCatalog(c *wire.StatsCompute, catalog []modelhub.Service) {
	for i := range c.Services {
		use := &c.Services[i]
		if at, listed := findService(catalog, use.ServiceID); listed {
			use.Name = catalog[at].Name
			if versions := catalog[at].Versions; len(versions) > 0 {
				use.LatestVersion = versions[0]
			}
		}
	}
	installed := make(map[string]bool, len(s.services))
	for key := range s.services {
		installed[key.ID] = true
	}
	for i := range catalog {
		switch service := &catalog[i]; {
		case installed[service.ServiceID]:
		case len(c.NotInstalled) < maxListed:
			c.NotInstalled = append(c.NotInstalled, describeService(service))
		default:
			c.OtherNotInstalled++
		}
	}
}

// sortCoverage sorts the directions by how many nodes they have.
func (s *surveyor) sortCoverage() wire.StatsCoverage {
	c := wire.StatsCoverage{
		Directions: len(s.coverage), None: []wire.DirectionCoverage{}, One: []wire.DirectionCoverage{}, More: []wire.DirectionCoverage{},
	}
	slices.SortFunc(s.coverage, func(a, b wire.DirectionCoverage) int {
		return cmp.Or(cmp.Compare(a.Slots, b.Slots), cmp.Compare(a.SrcLang, b.SrcLang), cmp.Compare(a.TgtLang, b.TgtLang))
	})
	for _, d := range s.coverage {
		switch d.Ready {
		case 0:
			c.None = append(c.None, d)
		case 1:
			c.One = append(c.One, d)
		default:
			c.More = append(c.More, d)
		}
	}
	return c
}

// mostInstalled returns the entries that most nodes have, at most maxListed, and how many others there are.
func mostInstalled[K comparable, V any](all map[K]*V, uncounted int, of func(*V) (installed int, name string)) (list []V, others int) {
	entries := make([]*V, 0, len(all))
	for _, entry := range all {
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b *V) int {
		installedA, nameA := of(a)
		installedB, nameB := of(b)
		return cmp.Or(cmp.Compare(installedB, installedA), cmp.Compare(nameA, nameB))
	})
	list = make([]V, 0, min(len(entries), maxListed))
	for _, entry := range entries[:min(len(entries), maxListed)] {
		list = append(list, *entry)
	}
	return list, len(entries) - len(list) + uncounted
}

// parseDirection parses the name of a direction in a tally.
func parseDirection(name string) (core.Direction, bool) {
	src, tgt, ok := strings.Cut(name, "→")
	return core.Direction{Src: core.Lang(src), Tgt: core.Lang(tgt)}, ok
}
