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
	for p := range f.Indexes() {
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
	written, spoken := f.Index(direction("en", "de"), false), f.Index(direction("en", "de"), true)
	if written == spoken {
		t.Error("a direction that must be spoken shares its pool with one that need not")
	}
	if f.Index(direction("en", "de"), false) != written || f.Index(direction("en", "de"), true) != spoken {
		t.Error("asking again made another pool")
	}
	// A caller that waited while another built the pool must not build it again: the first would not be updated.
	if f.division.Load().build(indexKey{Direction: direction("en", "de")}, &noRestriction, f.Now(), &f.mu).indexes[0].Load() != written {
		t.Error("the second call built another pool")
	}
	if diff := cmp.Diff([]string{"en→de", "en→de spoken"}, poolNames(f)); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

// fillPools adds pools without the cost of building each; the i-th was last used i seconds after the start. They count as served.
func fillPools(f *Fleet, pools int) {
	all := make(map[indexKey]*entry, pools)
	for i := range pools {
		key := indexKey{Direction: direction("en", core.Lang(fmt.Sprintf("x%04d", i)))}
		e := f.division.Load().newEntry(key, &noRestriction, Instant(i)*Instant(time.Second))
		e.served = true
		all[key] = e
	}
	f.division.Load().entries.Store(&all)
}

// TestPoolsAreBounded checks that requests for any number of directions do not grow the pools without bound.
func TestPoolsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := New(presence)
		limit := defaultLimits.served.entries
		fillPools(f, limit)
		time.Sleep(time.Duration(limit+10) * time.Second)
		f.Update(status(declared("a", speaks("en", "de", "fr", "it"))))

		// The one that would go first is used once more, so the next oldest go instead.
		kept := f.Index(direction("en", "x0000"), false)
		for i := range 3 {
			p := f.Index(direction("en", core.Lang([]string{"de", "fr", "it"}[i])), false)
			if got := p.Len(); got != 1 {
				t.Errorf("the %s pool made under pressure has %d members, want 1", p.Requirement, got)
			}
			if got := len(*f.division.Load().entries.Load()); got != limit {
				t.Fatalf("%d pools, want %d", got, limit)
			}
		}
		pools := *f.division.Load().entries.Load()
		if pools[indexKey{Direction: direction("en", "x0000")}].indexes[0].Load() != kept {
			t.Error("the pool that was just used is gone")
		}
		for i, want := range []bool{true, false, false, false, true} {
			key := indexKey{Direction: direction("en", core.Lang(fmt.Sprintf("x%04d", i)))}
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
		f.Index(idle, false)
		f.Index(busy, false)

		time.Sleep(indexIdleTimeout)
		f.Index(busy, false)
		before := f.division.Load().entries.Load()
		f.EvictIdleIndexes()
		if f.division.Load().entries.Load() != before {
			t.Error("the table of pools was rebuilt although nothing had to go")
		}

		time.Sleep(time.Nanosecond)
		f.EvictIdleIndexes()
		if diff := cmp.Diff([]string{"de→en"}, poolNames(f)); diff != "" {
			t.Fatalf("pools (-want +got):\n%s", diff)
		}

		// Another call builds it again from the nodes in view.
		f.Update(status(declared("a")))
		if diff := cmp.Diff(map[core.NodeID]core.Revision{"a": 1}, revisions(f.Index(idle, false))); diff != "" {
			t.Errorf("members (-want +got):\n%s", diff)
		}
	})
}

// TestPoolInUseIsNotEvicted checks that a pool in use stays although not every read is recorded.
func TestPoolInUseIsNotEvicted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := New(presence)
		pool := f.Index(direction("en", "de"), false)
		for range 3 * int(indexIdleTimeout/(700*time.Millisecond)) {
			time.Sleep(700 * time.Millisecond)
			f.Index(direction("en", "de"), false)
			f.EvictIdleIndexes()
		}
		if f.Index(direction("en", "de"), false) != pool {
			t.Error("a pool in use was evicted and built again")
		}
	})
}
