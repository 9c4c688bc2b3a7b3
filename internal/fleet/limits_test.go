package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// fewEntries are limits that every test exceeds.
var fewEntries = groups[usage]{
	served: usage{entries: 4, bytes: 1 << 20}, unserved: usage{entries: 3, bytes: 1 << 20}, restricted: usage{entries: 3, names: 4, bytes: 1 << 20},
}

// dividedFleet returns a fleet in so many pools.
func dividedFleet(pools int) *Fleet {
	f := agedFleet()
	f.SetPools(&core.Pools{Buckets: pools})
	return f
}

// usedBy returns what the entries of a fleet use.
func usedBy(f *Fleet) groups[usage] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return usageOf(*f.division.Load().entries.Load())
}

// TestUnservedDirectionsAreFew: directions that no node serves cost little, however many are asked for and however many pools there are, and
// replace none that is served.
func TestUnservedDirectionsAreFew(t *testing.T) {
	t.Parallel()
	f := dividedFleet(core.MaxPools)
	for i := range 100 {
		f.Update(status(declared(core.NodeID(fmt.Sprint("n", i)))))
	}
	served := f.Route(direction("en", "de"), false)
	for i := range 2 * defaultLimits.unserved.entries {
		f.Route(direction(core.Lang(fmt.Sprint("qaa-x-a", i)), "de"), false)
	}
	used := usedBy(f)
	if used.unserved.entries != defaultLimits.unserved.entries || used.served.entries != 1 || served.Closed() {
		t.Errorf("%+v; the one that is served is closed: %t", used, served.Closed())
	}
	if limit := int64(defaultLimits.unserved.entries) * (entryBytes + indexBytes + (core.MaxPools+1)*pointerBytes); used.unserved.bytes > limit {
		t.Errorf("they take %d bytes, want at most %d", used.unserved.bytes, limit)
	}
	indexes := 0
	for range f.Indexes() {
		indexes++
	}
	if want := defaultLimits.unserved.entries + 1 + len(served.Stops); indexes != want { // one of each for the nodes without a pool
		t.Errorf("%d indexes, want %d", indexes, want)
	}
}

// TestIndexIsMadeForTheFirstNode: a pool has an index of a direction when it has a node for it, which enters and leaves like any other.
func TestIndexIsMadeForTheFirstNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := dividedFleet(5)
		f.Route(direction("en", "de"), false)
		e := (*f.division.Load().entries.Load())[indexKey{Direction: direction("en", "de")}]
		if n := len(slices.Collect(e.all())); n != 1 || e.served {
			t.Errorf("%d indexes, served %t", n, e.served)
		}
		f.Update(status(declared("a", speaks("fr", "it"))))
		if n := len(slices.Collect(e.all())); n != 1 || e.served {
			t.Errorf("%d indexes after another node, served %t", n, e.served)
		}
		f.Update(status(declared("b")))
		pool := f.Division().Assign(declared("b")).Pool
		time.Sleep(time.Duration(routeMaxAge))
		want := map[core.PoolID]map[core.NodeID]core.Revision{pool: {"b": 1}}
		if diff := cmp.Diff(want, membersByPool(f, direction("en", "de"))); diff != "" || !e.served || len(slices.Collect(e.all())) != 2 {
			t.Errorf("members (-want +got):\n%s", diff)
		}
		f.Remove("b")
		time.Sleep(time.Duration(routeMaxAge))
		if got := membersByPool(f, direction("en", "de")); len(got) != 0 {
			t.Errorf("members after the node has left: %v", got)
		}
	})
}

// TestMemoryOfIndexesIsLimited: entries are closed when their indexes take more memory than they may, the least recently used first, also if
// they have grown since.
func TestMemoryOfIndexesIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := dividedFleet(20)
		d := f.division.Load()
		for i := range 200 {
			f.Update(status(declared(core.NodeID(fmt.Sprint("n", i)), speaks("en", "de", "fr"))))
		}
		first := f.Route(direction("en", "de"), false)
		each := usedBy(f).served.bytes
		if want := int64(len(first.Stops)) * (indexBytes + chunkBytes); each < want || each > want+2*entryBytes {
			t.Errorf("an entry of %d pools takes %d bytes, want about %d", len(first.Stops), each, want)
		}
		d.limits.served.bytes = 2 * each
		time.Sleep(2 * time.Second)
		second := f.Route(direction("en", "fr"), false)
		time.Sleep(2 * time.Second)
		third := f.Route(direction("de", "fr"), false)
		if !first.Closed() || second.Closed() || third.Closed() {
			t.Errorf("closed: %t, %t, %t", first.Closed(), second.Closed(), third.Closed())
		}
		d.limits.served.bytes = each // as if they had grown
		f.EvictIdleIndexes()
		if !second.Closed() || third.Closed() {
			t.Errorf("closed after they have grown: %t, %t", second.Closed(), third.Closed())
		}
	})
}

// manyNames is a restriction of so many services.
func manyNames(names, n int) *core.Restriction {
	r := new(core.Restriction)
	for i := range names {
		r.Services = append(r.Services, fmt.Sprintf("asr-%d@>=%d", i, n))
	}
	return r
}

// TestNodeEventsCheckFewNames: however many restrictions callers use, an event of a node checks a limited number of directions and names.
func TestNodeEventsCheckFewNames(t *testing.T) {
	t.Parallel()
	f := agedFleet()
	f.Update(status(declared("a")))
	plain := f.Route(direction("en", "de"), false)
	for i := range 1024 {
		f.RestrictedRoute(direction("en", "de"), false, manyNames(maxIndexedNames, i))
		if r := f.RestrictedRoute(direction("en", "de"), false, manyNames(maxIndexedNames+1, i)); r.entry != plain.entry {
			t.Fatalf("a restriction of %d names has an index", maxIndexedNames+1)
		}
		f.RestrictedRoute(direction("en", "de"), false, &core.Restriction{Region: fmt.Sprint("r", i)})
	}
	entries, names := 0, 0
	f.division.Load().onCheck = func(e *entry) {
		entries++
		names += e.restriction.Names()
	}
	f.Update(status(declared("b")))
	if limit := &defaultLimits.restricted; entries > limit.entries+1 || names > limit.names || names < limit.names/2 {
		t.Errorf("an event checks %d entries and %d names, want at most %d and %d", entries, names, limit.entries+1, limit.names)
	}
	if plain.Closed() {
		t.Error("the direction without a restriction was replaced")
	}
}

// TestRestrictionsInUseAreNotReplaced: when all entries with a restriction are in use, another restriction has none, and nodes are filtered one
// by one for it; it gets one when another entry is not used any more.
func TestRestrictionsInUseAreNotReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := agedFleet()
		d := f.division.Load()
		d.limits = fewEntries
		f.Update(status(declared("a")))
		region := func(i int) *Route {
			return f.RestrictedRoute(direction("en", "de"), false, &core.Restriction{Region: fmt.Sprint("r", i)})
		}
		limit := d.limits.restricted.entries
		var used []*Route
		for i := range limit {
			used = append(used, region(i))
		}
		builds := 0
		d.onScan = func() { builds++ }
		for range 10 {
			time.Sleep(time.Second + 1)
			for i := range limit + 5 {
				r := region(i)
				switch plain := f.Route(direction("en", "de"), false); {
				case i < limit && (r == plain || used[i].Closed()):
					t.Fatalf("restriction %d, which is in use, was replaced", i)
				case i >= limit && r != plain:
					t.Fatalf("restriction %d has an index", i)
				}
			}
		}
		if builds != 1 { // that of the direction
			t.Errorf("%d chunks were evaluated, want 1", builds)
		}
		f.mu.Lock() // a restriction that has no index does not wait for writers
		region(limit + 5)
		f.mu.Unlock()
		time.Sleep(restrictedInUse / 2)
		for i := range limit - 1 {
			region(i)
		}
		time.Sleep(restrictedInUse/2 + time.Second)
		if r := region(limit); r == f.Route(direction("en", "de"), false) || !used[limit-1].Closed() || used[0].Closed() {
			t.Error("the one that is not in use any more was not replaced")
		}
	})
}

// TestNamesInUseAreNotReplaced: restrictions in use that have as many names as all may have keep their entries.
func TestNamesInUseAreNotReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := agedFleet()
		f.division.Load().limits = fewEntries
		half := fewEntries.restricted.names / 2
		a, b := f.RestrictedRoute(direction("en", "de"), false, manyNames(half, 1)), f.RestrictedRoute(direction("en", "de"), false, manyNames(half, 2))
		time.Sleep(2 * time.Second)
		c := f.RestrictedRoute(direction("en", "de"), false, manyNames(1, 3))
		if a.Closed() || b.Closed() || c != f.Route(direction("en", "de"), false) {
			t.Errorf("closed: %t, %t; the third has an index: %t", a.Closed(), b.Closed(), c.entry != f.Route(direction("en", "de"), false).entry)
		}
	})
}

// TestRestrictedIndexesDoNotReplaceOthers: entries with restrictions are bounded when none is in use, too, and do not replace those without.
func TestRestrictedIndexesDoNotReplaceOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := agedFleet()
		f.division.Load().limits = fewEntries
		plain := f.Index(direction("en", "de"), false)
		for i := range 5 * fewEntries.restricted.entries {
			time.Sleep(restrictedInUse + 2*time.Second)
			f.RestrictedRoute(direction("en", "de"), false, &core.Restriction{Region: fmt.Sprint("r", i)})
			if used := usedBy(f).restricted; used.entries != min(i+1, fewEntries.restricted.entries) {
				t.Fatalf("%d entries after %d restrictions", used.entries, i+1)
			}
		}
		if f.Index(direction("en", "de"), false) != plain {
			t.Error("the index without a restriction was replaced")
		}
	})
}

// TestConcurrentEvictions checks that members which readers get serve the requirement at the revision that they name while entries are made,
// replaced and closed all the time, and that the indexes match the declarations in the end.
func TestConcurrentEvictions(t *testing.T) {
	t.Parallel()
	const writers, own, rounds = 3, 30, 300
	f := dividedFleet(3)
	f.division.Load().limits = fewEntries
	final := make([]map[core.NodeID]*core.Node, writers)
	var work, reading sync.WaitGroup
	var done atomic.Bool
	for w := range writers {
		final[w] = make(map[core.NodeID]*core.Node)
		work.Go(func() { churn(f, w, own, rounds, final[w]) })
	}
	for r := range 4 {
		reading.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 2))
			for !done.Load() {
				key := everyIndexKey[rng.IntN(len(everyIndexKey))]
				restriction := &core.Restriction{Region: []string{"", "", "eu", "us", "asia", "africa"}[rng.IntN(6)]}
				route := f.RestrictedRoute(key.Direction, key.tts, restriction)
				for _, stop := range append(slices.Clone(route.Stops), route.Outside) {
					if stop.Index == nil {
						continue
					}
					for m := range stop.Index.All() {
						if err := checkMember(stop.Index, m); err != nil {
							t.Error(err)
							return
						}
					}
				}
				if rng.IntN(20) == 0 {
					f.EvictIdleIndexes()
				}
			}
		})
	}
	work.Wait()
	done.Store(true)
	reading.Wait()
	m := poolModel{fleet: f, nodes: make(map[core.NodeID]*core.Node)}
	for _, nodes := range final {
		for id, n := range nodes {
			m.nodes[id] = n
		}
	}
	if err := m.check(); err != nil {
		t.Error(err)
	}
}

// BenchmarkRestrictions measures the use of so many restrictions in turn, with 100,000 nodes in 50 pools.
func BenchmarkRestrictions(b *testing.B) {
	f := dividedFleet(50)
	for i := range 100_000 {
		f.Update(status(declared(core.NodeID(fmt.Sprint("node-", i)), func(n *core.Node) {
			n.Region, n.Services = fmt.Sprint("r", i%3), []core.Service{{ID: "asr", Version: "2.1", Status: core.ServiceReady}}
		})))
	}
	for _, restrictions := range []int{200, 400, 1500, 3000} {
		b.Run(fmt.Sprint(restrictions, " restrictions"), func(b *testing.B) {
			i := 0
			for b.Loop() {
				i = (i + 1) % restrictions
				f.RestrictedRoute(direction("en", "de"), false, &core.Restriction{Region: fmt.Sprint("r", i%3), Services: []string{fmt.Sprint("asr@>=1.", i)}})
			}
		})
	}
}
