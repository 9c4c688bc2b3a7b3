package nodes_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// listAll follows the pages of a node list and returns all ids.
func (h *harness) listAll(f nodes.Filter, limit int) []core.NodeID {
	h.t.Helper()
	ids, after := []core.NodeID{}, core.NodeID("")
	for {
		page, more, err := h.registry.ListNodes(h.t.Context(), f, after, limit)
		if err != nil {
			h.t.Fatal(err)
		}
		if len(page) > limit || more && len(page) < limit {
			h.t.Fatalf("a page of %d nodes with limit %d, more %v", len(page), limit, more)
		}
		for _, s := range page {
			ids = append(ids, s.Node.ID)
		}
		if !more {
			return ids
		}
		after = ids[len(ids)-1]
	}
}

func TestListNodesInPages(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		want := []core.NodeID{}
		for i := range 23 {
			id := core.NodeID(fmt.Sprintf("node-%02d", i))
			want = append(want, id)
		}
		for _, id := range slices.Backward(want) {
			h.add(id, 1)
		}
		for _, limit := range []int{1, 5, 23, 100} {
			if diff := cmp.Diff(want, h.listAll(nodes.Filter{}, limit)); diff != "" {
				t.Errorf("limit %d (-want +got):\n%s", limit, diff)
			}
		}
	})
}

func TestListNodesByFilter(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		eu := "eu"
		h.add("a-eu", 1, func(p *core.Change) { p.Region = eu })
		h.add("b-de", 1, func(p *core.Change) { p.TTS = core.LangSet{"de"} })
		h.add("c-silent", 1)
		h.add("d-drained", 1)
		if _, err := h.registry.Drain(t.Context(), "d-drained", true); err != nil {
			t.Fatal(err)
		}
		offline := h.addConnected("e-offline", 1, "i-1", 1)
		if err := h.registry.MarkLost(t.Context(), "e-offline", offline.Epoch); err != nil {
			t.Fatal(err)
		}
		time.Sleep(timing.Presence)
		for _, id := range []core.NodeID{"a-eu", "b-de", "d-drained"} {
			h.heartbeat(nodes.Heartbeat{Node: id})
		}
		h.fleet.Remove("b-de") // not known to this instance: it is read
		for name, c := range map[string]struct {
			filter nodes.Filter
			want   []core.NodeID
		}{
			"all":               {nodes.Filter{}, []core.NodeID{"a-eu", "b-de", "c-silent", "d-drained", "e-offline"}},
			"region":            {nodes.Filter{Region: "eu"}, []core.NodeID{"a-eu"}},
			"language":          {nodes.Filter{Lang: "de"}, []core.NodeID{"b-de"}},
			"ready":             {nodes.Filter{State: "ready"}, []core.NodeID{"a-eu", "b-de"}},
			"silent":            {nodes.Filter{State: nodes.StateSilent}, []core.NodeID{"c-silent"}},
			"draining":          {nodes.Filter{State: "draining"}, []core.NodeID{"d-drained"}},
			"offline":           {nodes.Filter{State: "offline"}, []core.NodeID{"e-offline"}},
			"state and region":  {nodes.Filter{State: "ready", Region: "eu"}, []core.NodeID{"a-eu"}},
			"none of that kind": {nodes.Filter{State: "ready", Region: "us"}, []core.NodeID{}},
		} {
			if diff := cmp.Diff(c.want, h.listAll(c.filter, 2)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

func TestNodeIsFoundOrUnknown(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		h.add("a", 2)
		if s, err := h.registry.Node(t.Context(), "a"); err != nil || s.Max != 2 {
			t.Errorf("%+v, %v", s, err)
		}
		_, err := h.registry.Node(t.Context(), "unknown")
		wantCode(t, err, wire.NotFound)
	})
}

func TestListDirections(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		eu := "eu"
		h.add("a", 2)
		h.add("b", 3, func(p *core.Change) { p.Region = eu })
		h.add("c", 4, func(p *core.Change) { p.Semantic = core.LangSet{"de", "fr"} })
		h.add("drained", 5)
		if _, err := h.registry.Drain(t.Context(), "drained", true); err != nil {
			t.Fatal(err)
		}
		h.add("ejected", 6)
		h.admit("ejected", 0)
		h.add("limited", 7)
		h.admit("limited", 1)
		h.reserve("b", "job-1", "job-2")
		capacity := func(src, tgt core.Lang, nodesN, ready, slots, inFlight int) nodes.DirectionCapacity {
			return nodes.DirectionCapacity{Direction: core.Direction{Src: src, Tgt: tgt}, Nodes: nodesN, Ready: ready, Capacity: slots,
				InFlight: inFlight}
		}
		deFr, frDe := capacity("de", "fr", 1, 1, 4, 0), capacity("fr", "de", 1, 1, 4, 0)
		enZh, zhEn := capacity("en", "zh", 5, 3, 6, 2), capacity("zh", "en", 5, 3, 6, 2)
		for name, c := range map[string]struct {
			filter nodes.DirectionFilter
			after  core.Direction
			limit  int
			want   []nodes.DirectionCapacity
			more   bool
		}{
			"all":        {limit: 10, want: []nodes.DirectionCapacity{deFr, enZh, frDe, zhEn}},
			"exactly":    {limit: 4, want: []nodes.DirectionCapacity{deFr, enZh, frDe, zhEn}},
			"first page": {limit: 1, want: []nodes.DirectionCapacity{deFr}, more: true},
			"next page":  {after: deFr.Direction, limit: 2, want: []nodes.DirectionCapacity{enZh, frDe}, more: true},
			"last page":  {after: frDe.Direction, limit: 2, want: []nodes.DirectionCapacity{zhEn}},
			"language":   {filter: nodes.DirectionFilter{Lang: "fr"}, limit: 10, want: []nodes.DirectionCapacity{deFr, frDe}},
			"region": {filter: nodes.DirectionFilter{Region: "eu"}, limit: 10,
				want: []nodes.DirectionCapacity{capacity("en", "zh", 1, 1, 3, 2), capacity("zh", "en", 1, 1, 3, 2)}},
			"node": {filter: nodes.DirectionFilter{Node: "a"}, limit: 10,
				want: []nodes.DirectionCapacity{capacity("en", "zh", 1, 1, 2, 0), capacity("zh", "en", 1, 1, 2, 0)}},
			"none": {filter: nodes.DirectionFilter{Lang: "ja"}, limit: 10},
		} {
			got, more, err := h.registry.ListDirections(t.Context(), c.filter, c.after, c.limit)
			if err != nil || more != c.more {
				t.Errorf("%s: more %v, %v; want %v", name, more, err, c.more)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

// TestListDirectionsNamesUncoveredPools: a direction that has ready nodes names the pools, and the tenants, that have none.
func TestListDirectionsNamesUncoveredPools(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		has := func(service string) func(*core.Change) {
			return func(p *core.Change) { p.Services = []core.Service{{ID: service, Status: core.ServiceReady}} }
		}
		h.add("b1", 2, has("b"))
		h.add("b2", 2, has("b"))
		h.add("r1", 2, has("r"))
		h.fleet.SetPools(&core.Pools{
			Defined:   []core.PoolDefinition{{ID: "bound", RequiredServices: []string{"b"}}, {ID: "rest", RequiredServices: []string{"r"}}},
			Overrides: map[core.TenantID]core.PoolID{"acme": "bound"},
		})
		for _, c := range []struct {
			drain  core.NodeID
			filter nodes.DirectionFilter
			want   []core.CoverGroup
		}{
			{"b1", nodes.DirectionFilter{}, nil},
			{"b2", nodes.DirectionFilter{}, []core.CoverGroup{{Pool: "bound"}}},
			{"b2", nodes.DirectionFilter{Node: "b2"}, nil},
			{"r1", nodes.DirectionFilter{}, []core.CoverGroup{{Pool: "bound"}, {Pool: "rest"}}},
		} {
			if _, err := h.registry.Drain(t.Context(), c.drain, true); err != nil {
				t.Fatal(err)
			}
			list, _, err := h.registry.ListDirections(t.Context(), c.filter, core.Direction{}, 10)
			if err != nil || len(list) != 2 {
				t.Fatalf("%v, %v", list, err)
			}
			for _, d := range list {
				if diff := cmp.Diff(c.want, d.Uncovered); diff != "" {
					t.Errorf("%s without %s (-want +got):\n%s", d.Direction, c.drain, diff)
				}
			}
		}
	})
}

// The pages of many directions together are all directions, once, whatever the limit.
func TestListDirectionsInPages(t *testing.T) {
	run(t, func(t *testing.T, h *harness) {
		langs := core.LangSet{"de", "en", "es", "fr", "it", "ja", "ko", "pt", "ru", "zh"}
		for i := range langs {
			h.add(core.NodeID(fmt.Sprint("node-", i)), 1, func(p *core.Change) { p.Semantic = slices.Clone(langs[:i+1]) })
		}
		for _, limit := range []int{1, 7, 89, 90, 1000} {
			seen, after := map[core.Direction]int{}, core.Direction{}
			for more := true; more; {
				var page []nodes.DirectionCapacity
				var err error
				if page, more, err = h.registry.ListDirections(t.Context(), nodes.DirectionFilter{}, after, limit); err != nil {
					t.Fatal(err)
				}
				for _, c := range page {
					seen[c.Direction] += c.Nodes
					after = c.Direction
				}
			}
			if len(seen) != 90 {
				t.Errorf("limit %d: %d directions, want 90", limit, len(seen))
			}
			for d, n := range seen {
				a, b := slices.Index(langs, d.Src), slices.Index(langs, d.Tgt)
				if want := len(langs) - max(a, b); n != want {
					t.Errorf("limit %d: %d nodes serve %s, want %d", limit, n, d, want)
				}
			}
		}
	})
}

var _ nodes.Store = (store.Store)(nil)
