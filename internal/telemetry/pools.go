package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// PoolFallback says where a job was placed, a label.
type PoolFallback string

// The fallbacks.
const (
	FallbackNone    PoolFallback = "none"      // in the first pool that was tried
	FallbackNext    PoolFallback = "next_pool" // in another eligible pool
	FallbackOutside PoolFallback = "outside"   // on a node that is in no eligible pool
)

// Pools counts how capability pools are chosen for jobs. Its pools come from the configuration.
type Pools struct {
	selected *prometheus.CounterVec // pool, outcome, fallback
	attempts *prometheus.CounterVec // pool, result, reason

	mu     sync.RWMutex
	series map[core.PoolID]*poolSeries
	others *poolSeries // of all pools without series of their own; nil: there is no such pool yet
}

// poolSeries are the series of one pool that every job needs.
type poolSeries struct {
	label    string
	selected map[PoolFallback]prometheus.Counter
	ok       prometheus.Counter
}

func newPools(f factory) *Pools {
	return &Pools{
		selected: f.counterVec("phase3_pool_selected_total",
			"Selections of a capability pool for a job, by whether a slot was found and where: the first hundred pools, and other.", "pool",
			"outcome", "fallback"),
		attempts: f.counterVec("phase3_pool_attempt_total",
			"Capability pools that were tried for a job, by result and the most frequent reason of their nodes: the first hundred "+
				"pools, and other.", "pool", "result", "reason"),
		series: make(map[core.PoolID]*poolSeries),
	}
}

// CountSelected counts a job that got a slot in a pool; an empty id means a node without a pool.
func (p *Pools) CountSelected(pool core.PoolID, fallback PoolFallback) {
	s := p.of(pool)
	s.ok.Inc()
	s.selected[fallback].Inc()
}

// CountFailed counts a pool in which a job found no slot.
func (p *Pools) CountFailed(pool core.PoolID, reason string) {
	p.attempts.WithLabelValues(p.of(pool).label, "failed", reason).Inc()
}

// CountRefused counts a job that found no slot in any pool. The pool is the one to which the job is bound; empty: none.
func (p *Pools) CountRefused(pool core.PoolID) {
	p.selected.WithLabelValues(p.of(pool).label, "refused", string(FallbackNone)).Inc()
}

// of returns the series of a pool.
func (p *Pools) of(pool core.PoolID) *poolSeries {
	p.mu.RLock()
	s := p.known(pool)
	p.mu.RUnlock()
	if s == nil {
		s = p.add(pool)
	}
	return s
}

// known returns the series of a pool: its own, or those of all others; nil if they were not made yet. The caller holds the lock.
func (p *Pools) known(pool core.PoolID) *poolSeries {
	if s := p.series[pool]; s != nil || pool == "" {
		return s
	}
	return p.others
}

// add makes the series of a pool that had none.
func (p *Pools) add(pool core.PoolID) *poolSeries {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.known(pool); s != nil {
		return s
	}
	switch {
	case pool == "":
		p.series[pool] = p.newSeries("none")
	case len(p.series) >= maxLabelValues:
		p.others = p.newSeries(otherValue)
	default:
		p.series[pool] = p.newSeries(string(pool))
	}
	return p.known(pool)
}

// newSeries makes the series with a label.
func (p *Pools) newSeries(label string) *poolSeries {
	s := &poolSeries{label: label, selected: make(map[PoolFallback]prometheus.Counter), ok: p.attempts.WithLabelValues(label, "ok", "")}
	for _, f := range []PoolFallback{FallbackNone, FallbackNext, FallbackOutside} {
		s.selected[f] = p.selected.WithLabelValues(label, "selected", string(f))
	}
	return s
}
