package stats

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/health"
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
	covers   []coveredBy // by slots
	coverage wire.StatsCoverage
	compute  wire.StatsCompute
}

// coveredBy is how well a direction is covered, in a pool or for a tenant if that is named.
type coveredBy struct {
	fleet.Cover
	fleet.Covered
}

// surveyFleet counts the nodes of a fleet, and those that serve each direction. The catalog, ordered by id, has the names of services.
func surveyFleet(f *fleet.Fleet, catalog []health.HubService, directions []core.Direction) *survey {
	s := &surveyor{fleet: f, now: f.Now(), services: make(map[core.Service]*wire.ServiceUse), models: make(map[string]*wire.ModelUse)}
	s.wanted = slices.Clone(directions)
	for n := range f.All() {
		s.addDeclared(n.Declared())
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
	for cover, covered := range f.Cover(s.wanted).All() {
		result.covers = append(result.covers, coveredBy{cover, covered})
	}
	result.coverage = viewCoverage(result.covers)
	result.coverage.Directions = len(s.wanted)
	result.compute.Services, result.compute.OtherServices = mostInstalled(s.services, s.otherServices,
		func(u *wire.ServiceUse) (int, string) { return u.Installed, u.ServiceID + "@" + u.Version })
	s.addCatalog(&result.compute, catalog)
	result.compute.Models, result.compute.OtherModels = mostInstalled(s.models, s.otherModels,
		func(u *wire.ModelUse) (int, string) { return u.Installed, u.ModelID })
	return result
}

// surveyor counts nodes.
type surveyor struct {
	fleet         *fleet.Fleet
	now           fleet.Instant
	wanted        []core.Direction
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
	for _, d := range declared.Directions(maxListed - len(s.wanted)) {
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
}

// used returns how many slots of a node are in use, as far as that is known.
func (s *surveyor) used(n *fleet.Node) int {
	used, _ := s.fleet.InFlightWithin(n, s.now, usedValid)
	return used
}

// countInstalled counts the services and models of a node.
func (s *surveyor) countInstalled(n *fleet.Node, declared *core.Node, ready bool, slots int) {
	for i := range declared.Services {
		service := &declared.Services[i]
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
	for _, model := range declared.Models {
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
func (s *surveyor) addCatalog(c *wire.StatsCompute, catalog []health.HubService) {
	for i := range c.Services {
		use := &c.Services[i]
		if at, listed := health.FindService(catalog, use.ServiceID); listed {
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
			c.NotInstalled = append(c.NotInstalled, health.DescribeService(service))
		default:
			c.OtherNotInstalled++
		}
	}
}

// viewCoverage sorts what is covered by its slots, and lists it. A pool is listed only if it has at most one ready node.
func viewCoverage(all []coveredBy) wire.StatsCoverage {
	c := wire.StatsCoverage{None: []wire.DirectionCoverage{}, One: []wire.DirectionCoverage{}, More: []wire.DirectionCoverage{}}
	slices.SortFunc(all, func(a, b coveredBy) int {
		return cmp.Or(cmp.Compare(a.Slots-a.Withheld, b.Slots-b.Withheld), cmp.Compare(a.Src, b.Src), cmp.Compare(a.Tgt, b.Tgt),
			cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Tenant, b.Tenant))
	})
	for i := range all {
		d := &all[i]
		list := &c.More
		switch {
		case d.Ready == 0:
			list = &c.None
		case d.Ready == 1:
			list = &c.One
		case d.Pool != "":
			continue
		}
		if len(*list) < maxListed {
			*list = append(*list, wire.DirectionCoverage{
				SrcLang: string(d.Src), TgtLang: string(d.Tgt), PoolID: string(d.Pool), TenantID: string(d.Tenant), Ready: d.Ready,
				Slots: d.Slots - d.Withheld,
			})
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
