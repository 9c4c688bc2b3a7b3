package stats

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// translates makes a node that serves some directions.
func translates(pairs ...core.Direction) func(*store.NodeStatus) {
	return declares(func(n *core.Node) {
		n.Capability = core.Capability{Pairs: pairs}
		for _, d := range pairs {
			n.Semantic = append(n.Semantic, d.Src)
		}
		n.Normalise()
	})
}

var (
	deEN = core.Direction{Src: "de", Tgt: "en"}
	frEN = core.Direction{Src: "fr", Tgt: "en"}
	itEN = core.Direction{Src: "it", Tgt: "en"}
)

func name(d core.Direction) wire.DirectionName {
	return wire.DirectionName{SrcLang: string(d.Src), TgtLang: string(d.Tgt)}
}

// tenant makes a node serve one tenant.
func tenant(id core.TenantID) func(*store.NodeStatus) {
	return declares(func(n *core.Node) { n.Tenant = id })
}

func TestDrainEffect(t *testing.T) {
	t.Parallel()
	drained := declares(func(n *core.Node) { n.Drained = true })
	full := translates(deEN, frEN, itEN)
	for name, tc := range map[string]struct {
		node   store.NodeStatus
		others []store.NodeStatus
		none   []wire.DirectionName
		one    []wire.DirectionName
		share  float64
	}{
		"alone": {node("n", full), nil, []wire.DirectionName{name(deEN), name(frEN), name(itEN)}, nil, 1},
		"some are left": {
			node("n", full), []store.NodeStatus{node("a", translates(deEN, frEN)), node("b", translates(deEN)), node("c", translates(deEN))},
			[]wire.DirectionName{name(itEN)}, []wire.DirectionName{name(frEN)}, 0.25,
		},
		"a wider language serves": {
			node("n", translates(core.Direction{Src: "de-AT", Tgt: "en"})), []store.NodeStatus{node("a", translates(deEN))},
			nil, []wire.DirectionName{{SrcLang: "de-AT", TgtLang: "en"}}, 0.5,
		},
		"others that are not ready do not count": {
			node("n", translates(deEN)), []store.NodeStatus{
				node("a", translates(deEN), drained), node("b", translates(deEN), declares(func(n *core.Node) { n.Health = core.HealthDegraded })),
				node("c", translates(deEN), declares(func(n *core.Node) { n.Admission = core.Admission{Limited: true} })),
				node("d", translates(deEN), declares(func(n *core.Node) {
					n.Services = []core.Service{{ID: "asr", Type: "asr", Status: core.ServiceStopped}}
				})),
				node("e", translates(deEN), func(s *store.NodeStatus) { s.Age = presence }),
			},
			[]wire.DirectionName{name(deEN)}, nil, 1,
		},
		"a node that is drained already": {node("n", translates(deEN), drained), []store.NodeStatus{node("a", translates(deEN))}, nil, []wire.DirectionName{name(deEN)}, 0},
		"nodes of tenants do not serve all": {
			node("n", translates(deEN)), []store.NodeStatus{node("a", translates(deEN), tenant("acme")), node("b", translates(deEN), tenant("acme"))},
			[]wire.DirectionName{name(deEN)}, nil, 1.0 / 3,
		},
		"shared nodes serve a tenant": {
			node("n", translates(deEN), tenant("acme")), []store.NodeStatus{node("a", translates(deEN)), node("b", translates(deEN), tenant("acme")), node("c", translates(deEN), tenant("beta"))},
			nil, nil, 0.25,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, _ := newTable(append(tc.others, tc.node)...)
			got, err := table.DrainEffect(t.Context(), tc.node.Node)
			if err != nil {
				t.Fatal(err)
			}
			want := &wire.DrainEffect{Slots: 4, ShareOfSlots: tc.share, None: append([]wire.DirectionName{}, tc.none...), One: append([]wire.DirectionName{}, tc.one...)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// polyglot is a node that serves each direction between so many languages.
func polyglot(id core.NodeID, languages int) store.NodeStatus {
	return node(id, declares(func(n *core.Node) {
		var langs []core.Lang
		for i := range languages {
			langs = append(langs, core.Lang(fmt.Sprintf("x%c%c", 'a'+i/26, 'a'+i%26)))
		}
		n.Semantic = core.NewLangSet(langs...)
	}))
}

func TestDrainEffectIsBounded(t *testing.T) {
	t.Parallel()
	for languages, want := range map[int]int{14: 182, 15: maxEffectListed, 46: maxEffectListed} { // 182, 210 and 2,070 directions
		n := polyglot("n", languages)
		table, _ := newTable(n)
		got, err := table.DrainEffect(t.Context(), n.Node)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.None) != want || got.Truncated != (want == maxEffectListed) {
			t.Errorf("%d languages: %d directions, truncated %v; want %d", languages, len(got.None), got.Truncated, want)
		}
	}
	// Of one that serves very many directions the first are counted.
	n, other := polyglot("n", 46), polyglot("a", 46)
	other.Node.MaxJobs = 8
	third := other
	third.Node = new(core.Node)
	*third.Node = *other.Node
	third.Node.ID = "b"
	table, _ := newTable(n, other, third)
	got, err := table.DrainEffect(t.Context(), n.Node)
	if err != nil || len(got.None)+len(got.One) != 0 || !got.Truncated {
		t.Errorf("%+v, %v; want only that it is truncated", got, err)
	}
}

func TestDrainEffectEndsWithItsContext(t *testing.T) {
	t.Parallel()
	n := polyglot("n", 5)
	table, _ := newTable(n)
	read(t, table, NodeQuery{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := table.DrainEffect(ctx, n.Node); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// BenchmarkDrainEffect computes the effect of a node with 870 directions in a fleet of 10,000 nodes.
func BenchmarkDrainEffect(b *testing.B) {
	f := fleet.New(presence * 1000)
	for i := range 10_000 {
		f.Update(polyglot(core.NodeID(fmt.Sprintf("n-%d", i)), 2+i%28))
	}
	n := polyglot("n", 30)
	f.Update(n)
	table := NewNodeTable(f, nil, presence)
	for b.Loop() {
		if _, err := table.DrainEffect(b.Context(), n.Node); err != nil {
			b.Fatal(err)
		}
	}
}

// TestDrainEffectOfMany: what is missing without several nodes is what is missing without all of them at once.
func TestDrainEffectOfMany(t *testing.T) {
	t.Parallel()
	enDE := core.Direction{Src: "en", Tgt: "de"}
	a, b, c := node("a", translates(deEN)), node("b", translates(deEN, enDE)), node("c", translates(deEN))
	acme, rest := node("acme", translates(enDE), tenant("acme")), node("rest", translates(enDE))
	table, _ := newTable(a, b, c, acme, rest)
	got, err := table.DrainEffect(t.Context(), a.Node, b.Node, acme.Node)
	if err != nil {
		t.Fatal(err)
	}
	want := &wire.DrainEffect{
		Slots: 12, ShareOfSlots: 0.6, None: []wire.DirectionName{},
		One: []wire.DirectionName{{SrcLang: "de", TgtLang: "en"}, {SrcLang: "en", TgtLang: "de"}, {SrcLang: "en", TgtLang: "de", TenantID: "acme"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got, err = table.DrainEffect(t.Context(), a.Node, b.Node, c.Node, acme.Node, rest.Node); err != nil || len(got.None) != 3 || len(got.One) != 0 || got.ShareOfSlots != 1 {
		t.Errorf("without all nodes: %+v, %v", got, err)
	}
	if got, err = table.DrainEffect(t.Context()); err != nil || got.Slots != 0 || len(got.None)+len(got.One) != 0 {
		t.Errorf("without none: %+v, %v", got, err)
	}
}

// TestDrainEffectKnowsPools: the last node of a pool is missing there although others serve its directions, also if it serves one tenant,
// which is bound to the pool.
func TestDrainEffectKnowsPools(t *testing.T) {
	t.Parallel()
	division := &core.Pools{
		Defined:   []core.PoolDefinition{{ID: "large", RequiredServices: []string{"large"}}, {ID: "small", RequiredServices: []string{"small"}}},
		Overrides: map[core.TenantID]core.PoolID{"acme": "large"},
	}
	has := func(service string) func(*store.NodeStatus) {
		return declares(func(n *core.Node) {
			n.Services = []core.Service{{ID: service, Status: core.ServiceReady}}
		})
	}
	in := func(pool, tenant string) wire.DirectionName {
		return wire.DirectionName{SrcLang: "de", TgtLang: "en", PoolID: pool, TenantID: tenant}
	}
	a, b := node("a", translates(deEN), has("large")), node("b", translates(deEN), has("large"))
	own := node("own", translates(deEN), has("large"), tenant("acme"))
	others := []store.NodeStatus{node("s1", translates(deEN), has("small")), node("s2", translates(deEN), has("small")), node("s3", translates(deEN))}
	for name, tc := range map[string]struct {
		nodes   []store.NodeStatus
		drained []*core.Node
		none    []wire.DirectionName
		one     []wire.DirectionName
	}{
		"one of two":                     {[]store.NodeStatus{a, b}, []*core.Node{a.Node}, nil, []wire.DirectionName{in("large", "")}},
		"both":                           {[]store.NodeStatus{a, b}, []*core.Node{a.Node, b.Node}, []wire.DirectionName{in("large", "")}, nil},
		"the own node beside a shared":   {[]store.NodeStatus{a, own}, []*core.Node{own.Node}, nil, []wire.DirectionName{in("large", "acme")}},
		"the shared node beside an own":  {[]store.NodeStatus{a, own}, []*core.Node{a.Node}, []wire.DirectionName{in("large", "")}, nil},
		"the only node of the tenant":    {[]store.NodeStatus{own}, []*core.Node{own.Node}, []wire.DirectionName{in("large", "acme")}, nil},
		"a pool that has enough of them": {[]store.NodeStatus{a, b, node("c", translates(deEN), has("large"))}, []*core.Node{a.Node}, nil, nil},
		"a node of no pool":              {nil, []*core.Node{others[2].Node}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, f := newTable(append(tc.nodes, others...)...)
			f.SetPools(division)
			got, err := table.DrainEffect(t.Context(), tc.drained...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append([]wire.DirectionName{}, tc.none...), got.None); diff != "" {
				t.Errorf("none (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(append([]wire.DirectionName{}, tc.one...), got.One); diff != "" {
				t.Errorf("one (-want +got)\n%s", diff)
			}
		})
	}
}
