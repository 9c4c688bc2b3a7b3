package stats

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestCoverageCountsDirectionsInUse checks that a direction that nodes declare and nobody used for a day does not count.
func TestCoverageCountsDirectionsInUse(t *testing.T) {
	t.Parallel()
	cover := func(pairs ...string) (all []wire.DirectionCoverage) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, wire.DirectionCoverage{SrcLang: pairs[i], TgtLang: pairs[i+1]})
		}
		return all
	}
	s := &wire.Stats{
		Nodes:    wire.StatsNodes{Total: 21, Ready: 1, Degraded: 2, Draining: 3, Ejected: 4, Disconnected: 5, Offline: 6, Connected: 9},
		Coverage: wire.StatsCoverage{None: cover("ko", "de"), One: cover("en", "ja", "ja", "en", "en", "fr"), More: cover("en", "de", "de", "en")},
	}
	for _, d := range [][2]string{{"ko", "de"}, {"en", "ja"}, {"ja", "en"}, {"en", "de"}} {
		s.Languages.LastDay.Directions = append(s.Languages.LastDay.Directions, wire.DirectionUse{SrcLang: d[0], TgtLang: d[1], Jobs: 1})
	}
	want := telemetry.Coverage{
		Nodes:      map[string]int{"ready": 1, "degraded": 2, "draining": 3, "ejected": 4, "disconnected": 5, "offline": 6},
		Directions: map[string]int{"0": 1, "1": 2, "more": 1},
	}
	if diff := cmp.Diff(want, coverageOf(s)); diff != "" {
		t.Errorf("coverage (-want +got):\n%s", diff)
	}
}

// TestCoverageOfPools checks that a pool without a ready node, and the tenant that is bound to it, are not covered although the direction
// has other nodes: in the snapshot, in the metric, which counts a direction once, and in the events.
func TestCoverageOfPools(t *testing.T) {
	t.Parallel()
	f := fleet.New(time.Hour)
	f.SetPools(&core.Pools{
		Defined:   []core.PoolDefinition{{ID: "bound", RequiredServices: []string{"b"}}, {ID: "rest", RequiredServices: []string{"r"}}},
		Overrides: map[core.TenantID]core.PoolID{"acme": "bound"},
	})
	version := core.Version(0)
	update := func(id core.NodeID, service string, health core.Health) {
		version++
		n := &core.Node{
			ID: id, Epoch: 1, Version: version, Revision: 1, Declaration: core.Declaration{Health: health, MaxJobs: 4, Callback: "http://127.0.0.1:9/",
				Capability: core.Capability{Semantic: zhEN, AnyPair: true, Services: []core.Service{{ID: service, Status: core.ServiceReady}}}},
		}
		n.Normalise()
		f.Update(store.NodeStatus{Node: n})
	}
	cover := func() (s *wire.Stats, covers []coveredBy) {
		all := surveyFleet(f, nil, []core.Direction{enZH})
		s = &wire.Stats{Coverage: all.coverage}
		s.Languages.LastDay.Directions = []wire.DirectionUse{{SrcLang: "en", TgtLang: "zh", Jobs: 1}}
		return s, all.covers
	}
	entry := func(pool string, ready int) wire.DirectionCoverage {
		return wire.DirectionCoverage{SrcLang: "en", TgtLang: "zh", PoolID: pool, Ready: ready, Slots: 4 * ready}
	}
	ofEnZH := func(all []wire.DirectionCoverage) (list []wire.DirectionCoverage) {
		for _, d := range all {
			if d.SrcLang == "en" {
				list = append(list, d)
			}
		}
		return list
	}
	want := func(none, one, more []wire.DirectionCoverage, metric string) (covers []coveredBy) {
		t.Helper()
		s, covers := cover()
		c := &s.Coverage
		for name, lists := range map[string][2][]wire.DirectionCoverage{"none": {none, c.None}, "one": {one, c.One}, "more": {more, c.More}} {
			if diff := cmp.Diff(lists[0], ofEnZH(lists[1])); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		counted := coverageOf(s).Directions
		for ready, n := range counted {
			if n != map[bool]int{true: 1}[ready == metric] {
				t.Errorf("counted %v, want one direction with %s", counted, metric)
			}
		}
		return covers
	}
	for _, id := range []core.NodeID{"b1", "b2"} {
		update(id, "b", core.HealthReady)
		update("r"+id, "r", core.HealthReady)
	}
	watch, now := newCoverageWatch(), time.UnixMilli(1_800_000_000_000)
	demand := counts{"en→zh": 1}
	watch.update(want(nil, nil, []wire.DirectionCoverage{entry("", 4)}, "more"), demand, now)
	update("b1", "b", core.HealthDraining)
	watch.update(want(nil, []wire.DirectionCoverage{entry("bound", 1)}, []wire.DirectionCoverage{entry("", 3)}, "1"), demand, now)
	update("b2", "b", core.HealthDraining)
	covers := want([]wire.DirectionCoverage{entry("bound", 0)}, nil, []wire.DirectionCoverage{entry("", 2)}, "0")
	watch.update(covers, demand, now)
	watch.update(covers, demand, now.Add(uncoveredGrace))
	update("b2", "b", core.HealthReady)
	watch.update(want(nil, []wire.DirectionCoverage{entry("bound", 1)}, []wire.DirectionCoverage{entry("", 3)}, "1"), demand, now.Add(time.Minute))
	events := []string{"en→zh in pool bound has no ready node", "en→zh in pool bound has a ready node again after 1m0s"}
	if diff := cmp.Diff(events, watch.takeDetails()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
