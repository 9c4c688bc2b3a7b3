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
