package telemetry

import (
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// TestPoolLabelsAreCapped: however many pools there have been, the label has so many values and other.
func TestPoolLabelsAreCapped(t *testing.T) {
	t.Parallel()
	m := New()
	m.Pools.CountSelected("", FallbackOutside)
	for range 2 {
		for i := range 3 * maxLabelValues {
			pool := core.PoolID(fmt.Sprint("pool-", i))
			m.Pools.CountSelected(pool, FallbackNext)
			m.Pools.CountFailed(pool, "full")
			m.Pools.CountRefused(pool)
		}
	}
	_, series := gather(t, m.Registry)
	selected := withPrefix(series, "phase3_pool_selected_total")
	if want := (maxLabelValues+1)*3 + maxLabelValues; len(selected) != want { // three fallbacks each, and refusals of all but none
		t.Errorf("%d series, want %d", len(selected), want)
	}
	for name, want := range map[string]float64{
		"phase3_pool_selected_total{fallback=outside,outcome=selected,pool=none}":     1,
		"phase3_pool_selected_total{fallback=next_pool,outcome=selected,pool=pool-1}": 2,
		"phase3_pool_selected_total{fallback=next_pool,outcome=selected,pool=other}":  2 * (2*maxLabelValues + 1),
		"phase3_pool_selected_total{fallback=none,outcome=refused,pool=pool-1}":       2,
	} {
		if got := selected[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestSeriesOfOtherPoolsAreMadeOnce: the pools beyond the maximum share series that are made once, and nodes without a pool keep their own.
func TestSeriesOfOtherPoolsAreMadeOnce(t *testing.T) { //nolint:paralleltest // it counts allocations
	m := New()
	for i := range maxLabelValues {
		m.Pools.CountSelected(core.PoolID(fmt.Sprint("pool-", i)), FallbackNone)
	}
	first, second := m.Pools.of("beyond-1"), m.Pools.of("beyond-2")
	if first != second || first.label != otherValue {
		t.Errorf("the series of %s are made again", first.label)
	}
	if none := m.Pools.of(""); none.label != "none" || none != m.Pools.of("") {
		t.Errorf("nodes without a pool count as %s", none.label)
	}
	if allocations := testing.AllocsPerRun(100, func() { m.Pools.CountSelected("beyond-3", FallbackNext) }); allocations > 0 {
		t.Errorf("%v allocations for each count", allocations)
	}
}
