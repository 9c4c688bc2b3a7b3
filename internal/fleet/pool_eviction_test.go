package fleet

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
)

func poolNames(f *Fleet) []string {
	var all []string
	for p := range f.Pools() {
		name := p.Requirement.String()
		if p.Requirement.TTS {
			name += " spoken"
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func TestPoolIsBuiltOnce(t *testing.T) {
	t.Parallel()
	f := New(presence)
	written, spoken := f.Pool(direction("en", "de"), false), f.Pool(direction("en", "de"), true)
	if written == spoken {
		t.Error("a direction that must be spoken shares its pool with one that need not")
	}
	if f.Pool(direction("en", "de"), false) != written || f.Pool(direction("en", "de"), true) != spoken {
		t.Error("asking again made another pool")
	}
	// A caller that waited while another built the pool must not build it again: the first would not be updated.
	if f.buildPool(poolKey{direction("en", "de"), false}, f.Now()) != written {
		t.Error("the second call built another pool")
	}
	if diff := cmp.Diff([]string{"en→de", "en→de spoken"}, poolNames(f)); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

// fillPools adds pools without the cost of building each; the i-th was last used i seconds after the start.
func fillPools(f *Fleet, pools int) {
	all := make(map[poolKey]*Pool, pools)
	for i := range pools {
		key := poolKey{direction("en", core.Lang(fmt.Sprintf("x%04d", i))), false}
		p := &Pool{Requirement: core.NewRequirement(key.Direction, false), index: make(map[core.NodeID]int)}
		p.members.Store(&Members{})
		p.lastUsed.Store(int64(i) * int64(time.Second))
		all[key] = p
	}
	f.pools.Store(&all)
}

// TestPoolsAreBounded checks that requests for any number of directions do not grow the pools without bound.
func TestPoolsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := New(presence)
		fillPools(f, maxPools)
		time.Sleep((maxPools + 10) * time.Second)
		f.Update(status(declared("a")))

		// The one that would go first is used once more, so the next oldest go instead.
		kept := f.Pool(direction("en", "x0000"), false)
		for i := range 3 {
			p := f.Pool(direction("en", core.Lang([]string{"de", "fr", "it"}[i])), false)
			if got, want := p.Members().Len(), []int{1, 0, 0}[i]; got != want {
				t.Errorf("the %s pool made under pressure has %d members, want %d", p.Requirement, got, want)
			}
			if got := len(*f.pools.Load()); got != maxPools {
				t.Fatalf("%d pools, want %d", got, maxPools)
			}
		}
		pools := *f.pools.Load()
		if pools[poolKey{direction("en", "x0000"), false}] != kept {
			t.Error("the pool that was just used is gone")
		}
		for i, want := range []bool{true, false, false, false, true} {
			key := poolKey{direction("en", core.Lang(fmt.Sprintf("x%04d", i))), false}
			if got := pools[key] != nil; got != want {
				t.Errorf("pool %v is there: %v, want %v", key, got, want)
			}
		}
	})
}

func TestIdlePoolsAreEvicted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := New(presence)
		idle, busy := direction("en", "de"), direction("de", "en")
		f.Pool(idle, false)
		f.Pool(busy, false)

		time.Sleep(poolIdleTimeout)
		f.Pool(busy, false)
		before := f.pools.Load()
		f.EvictIdlePools()
		if f.pools.Load() != before {
			t.Error("the table of pools was rebuilt although nothing had to go")
		}

		time.Sleep(time.Nanosecond)
		f.EvictIdlePools()
		if diff := cmp.Diff([]string{"de→en"}, poolNames(f)); diff != "" {
			t.Fatalf("pools (-want +got):\n%s", diff)
		}

		// Another call builds it again from the nodes in view.
		f.Update(status(declared("a")))
		if diff := cmp.Diff(map[core.NodeID]core.Revision{"a": 1}, revisions(f.Pool(idle, false).Members())); diff != "" {
			t.Errorf("members (-want +got):\n%s", diff)
		}
	})
}

// TestPoolInUseIsNotEvicted checks that a pool in use stays although not every read is recorded.
func TestPoolInUseIsNotEvicted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := New(presence)
		pool := f.Pool(direction("en", "de"), false)
		for range 3 * int(poolIdleTimeout/(700*time.Millisecond)) {
			time.Sleep(700 * time.Millisecond)
			f.Pool(direction("en", "de"), false)
			f.EvictIdlePools()
		}
		if f.Pool(direction("en", "de"), false) != pool {
			t.Error("a pool in use was evicted and built again")
		}
	})
}
