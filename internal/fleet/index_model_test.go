package fleet

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// The property: after any changes of the fleet, a pool has exactly the nodes in view that serve its requirement, each with the
// revision of its current declaration.
//
// A script is drawn first and then applied in a synctest bubble, because a failed property must not panic through the bubble.

// action is one step of a script.
type action struct {
	Kind   string
	Node   core.NodeID
	Cap    core.Capability
	Region string
	Pool   indexKey
	Wait   time.Duration
}

func (a action) String() string {
	return fmt.Sprintf("%s %s %+v %v %v", a.Kind, a.Node, a.Cap, a.Pool, a.Wait)
}

var (
	// Tags that meet by truncation (en-US, en), tags that do not for their script (zh-TW, zh), and strangers.
	someLangs     = []core.Lang{"de", "en", "en-US", "zh", "zh-TW"}
	someNodes     = []core.NodeID{"a", "b", "c", "d", "e"}
	everyIndexKey = allIndexKeys()
)

func allIndexKeys() (all []indexKey) {
	for _, src := range someLangs {
		for _, tgt := range someLangs {
			if src != tgt {
				all = append(all, indexKey{Direction: direction(src, tgt)}, indexKey{Direction: direction(src, tgt), tts: true})
			}
		}
	}
	return all
}

func drawLangs(t *rapid.T, label string, least int) core.LangSet {
	return core.NewLangSet(rapid.SliceOfNDistinct(rapid.SampledFrom(someLangs), least, -1, rapid.ID).Draw(t, label)...)
}

func drawCapability(t *rapid.T) core.Capability {
	tri := rapid.SampledFrom([]core.Tri{core.Unknown, core.Unknown, core.Unknown, core.Yes, core.No})
	c := core.Capability{
		Semantic: drawLangs(t, "semantic", 1),
		TTS:      drawLangs(t, "tts", 0),
		AnyPair:  rapid.Bool().Draw(t, "any pair"),
		Types:    core.ServiceTypes{ASR: tri.Draw(t, "asr"), NMT: tri.Draw(t, "nmt"), TTS: tri.Draw(t, "tts"), Semantic: tri.Draw(t, "semantic")},
	}
	if rapid.Bool().Draw(t, "declares asr") {
		c.ASR = drawLangs(t, "asr", 0)
	}
	if !c.AnyPair {
		for _, key := range rapid.SliceOfN(rapid.SampledFrom(everyIndexKey), 0, 8).Draw(t, "pairs") {
			c.Pairs = append(c.Pairs, key.Direction)
		}
	}
	c.Normalise()
	return c
}

var someActions = rapid.Custom(func(t *rapid.T) action {
	a := action{
		Kind: rapid.SampledFrom([]string{
			"declare", "declare", "declare", "next epoch", "degraded", "stale", "heartbeat", "remove", "expire", "pool", "pool", "restricted", "evict", "divide",
		}).Draw(t, "kind"),
		Node: rapid.SampledFrom(someNodes).Draw(t, "node"),
	}
	switch a.Kind {
	case "declare", "next epoch", "stale":
		a.Cap = drawCapability(t)
		a.Region = string(rapid.SampledFrom(someNodes).Draw(t, "region"))
	case "expire":
		a.Wait = time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second
	case "pool", "restricted":
		a.Pool = rapid.SampledFrom(everyIndexKey).Draw(t, "pool")
	}
	return a
})

// poolModel is a view with the nodes that should be in it.
type poolModel struct {
	fleet *Fleet
	nodes map[core.NodeID]*core.Node
	seen  map[core.NodeID]time.Time
	last  map[core.NodeID]*core.Node // also of nodes that left: a store continues their numbers
}

func (m *poolModel) apply(a action) {
	known := m.nodes[a.Node]
	serve := func(n *core.Node) { n.Capability, n.Region = a.Cap, a.Region }
	switch a.Kind {
	case "declare":
		n := declared(a.Node, serve)
		if last := m.last[a.Node]; last != nil {
			n = successor(last, serve)
		}
		m.update(n)
	case "next epoch":
		if last := m.last[a.Node]; last != nil {
			m.update(nextEpoch(last, serve))
		}
	case "degraded":
		if known != nil {
			m.update(successor(known, health(core.HealthDegraded), slots(known.MaxJobs+1)))
		}
	case "stale":
		if known != nil {
			old := *known
			old.Version, old.Revision = known.Version-1, known.Revision-1
			serve(&old)
			m.fleet.Update(status(&old, seenAgo(presence-1)))
		}
	case "heartbeat":
		if known != nil {
			m.fleet.RecordHeartbeat(a.Node, core.UnknownLoad, status(known).Occupancy)
			m.seen[a.Node] = time.Now()
		}
	case "remove":
		m.fleet.Remove(a.Node)
		delete(m.nodes, a.Node)
	case "expire":
		time.Sleep(a.Wait)
		m.fleet.ExpireSilent()
		for id := range m.nodes {
			if time.Since(m.seen[id]) >= presence {
				delete(m.nodes, id)
			}
		}
	case "pool":
		m.fleet.Index(a.Pool.Direction, a.Pool.tts)
	case "restricted":
		m.fleet.RestrictedRoute(a.Pool.Direction, a.Pool.tts, &core.Restriction{Region: string(a.Node)})
	case "divide":
		m.fleet.SetPools(&core.Pools{Buckets: 3})
		m.fleet.division.Load().limits = fewEntries
	case "evict":
		m.fleet.EvictIdleIndexes()
	}
}

func (m *poolModel) update(n *core.Node) {
	m.fleet.Update(status(n))
	m.nodes[n.ID], m.last[n.ID], m.seen[n.ID] = n, n, time.Now()
}

// served returns the nodes that serve a direction, by definition and without an index.
func (m *poolModel) served(key indexKey, r *core.Restriction) map[core.NodeID]core.Revision {
	found := make(map[core.NodeID]core.Revision)
	requirement := core.NewRequirement(key.Direction, key.tts)
	for id, n := range m.nodes {
		if requirement.Mismatch(&n.Capability) == core.ReasonNone && r.Allows(n) {
			found[id] = n.Revision
		}
	}
	return found
}

func (m *poolModel) check() error {
	if got := m.fleet.Len(); got != len(m.nodes) {
		return fmt.Errorf("Len() = %d, want %d", got, len(m.nodes))
	}
	for id, n := range m.nodes {
		if got := m.fleet.Node(id); got == nil || got.Declared() != n {
			return fmt.Errorf("node %s is not in view as it is declared", id)
		}
	}
	d := m.fleet.division.Load()
	for key, e := range *d.entries.Load() {
		want, got, members := m.served(key, &e.restriction), make(map[core.NodeID]core.Revision), 0
		for x := range e.all() {
			maps.Copy(got, revisions(x))
			members += x.Len()
			for i := range x.Len() {
				if v := x.View(); v.At(v.SlotOf(i)).Node == nil {
					return fmt.Errorf("index %v has no member %d of %d", key, i, x.Len())
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("index %v (-want +got):\n%s", key, diff)
		}
		if members != len(want) {
			return fmt.Errorf("the indexes %v have %d members, want %d", key, members, len(want))
		}
		if e.closed.Load() || len(want) > 0 && !e.served {
			return fmt.Errorf("the entry %v is closed: %t, served: %t", key, e.closed.Load(), e.served)
		}
	}
	return m.checkLimits(usageOf(*d.entries.Load()), &d.limits)
}

// checkLimits checks that there are not more entries than there may be. Those of directions that no node served when they were made may be
// served meanwhile.
func (m *poolModel) checkLimits(used groups[usage], limits *groups[usage]) error {
	if used.served.entries+used.unserved.entries > limits.served.entries+limits.unserved.entries || used.restricted.exceeds(&limits.restricted) {
		return fmt.Errorf("the entries use %+v of %+v", used, *limits)
	}
	return nil
}

func TestIndexesHaveExactlyTheNodesThatServe(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(someActions, 1, 60).Draw(rt, "script")
		var failed error
		synctest.Test(t, func(*testing.T) {
			m := &poolModel{
				fleet: agedFleet(),
				nodes: make(map[core.NodeID]*core.Node),
				seen:  make(map[core.NodeID]time.Time),
				last:  make(map[core.NodeID]*core.Node),
			}
			for i, a := range script {
				m.apply(a)
				if err := m.check(); err != nil {
					failed = fmt.Errorf("after act %d (%s): %w", i, a.Kind, err)
					return
				}
			}
			// A pool that is built now equals one that was built before.
			for _, key := range everyIndexKey {
				m.fleet.Index(key.Direction, key.tts)
			}
			if err := m.check(); err != nil {
				failed = fmt.Errorf("asked for late: %w", err)
			}
		})
		if failed != nil {
			rt.Fatal(failed)
		}
	})
}
