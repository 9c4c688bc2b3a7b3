package telemetry

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// WaitingCounts is who waits on an instance for a free slot, and what the tenants have got.
type WaitingCounts struct {
	Pools   map[string]int // by the pool in whose queue they wait
	Tenants map[string]int
	Shares  map[string]TenantShare // by tenant; without tenants that were entitled to too little to compare
}

// TenantShare is what a tenant was granted, and what its part was.
type TenantShare struct{ Granted, Entitled float64 }

const (
	// maxWaitingPools and maxWaitingTenants bound the labels: those that have most have their own, the rest is "other".
	maxWaitingPools   = 50
	maxWaitingTenants = 20
	// noValue is the label of what has no name.
	noValue = "none"
)

// WaitingGauges collects the gauges of requests that wait.
type WaitingGauges struct {
	read                  func() WaitingCounts
	pools, tenants, share *prometheus.Desc
}

// NewWaitingGauges makes the collector; read is called at every scrape.
func NewWaitingGauges(read func() WaitingCounts) *WaitingGauges {
	desc := func(name, help, label string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{label}, nil)
	}
	return &WaitingGauges{
		read: read,
		pools: desc("lingua_waiting_requests_by_pool",
			"Requests that wait on this instance for a free slot, by the capability pool in whose queue they wait: the fifty with most, "+
				"and other.", "pool"),
		tenants: desc("lingua_waiting_requests_by_tenant",
			"Requests that wait on this instance for a free slot, by tenant: the twenty with most, and other.", "tenant"),
		share: desc("lingua_wait_share_ratio",
			"Slots that a tenant got in the last minute while others waited for the same, divided by its part by the weights, as this "+
				"instance has observed it: the twenty with the largest part, and other.", "tenant"),
	}
}

// Describe implements prometheus.Collector.
func (g *WaitingGauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- g.pools
	ch <- g.tenants
	ch <- g.share
}

// Collect implements prometheus.Collector.
func (g *WaitingGauges) Collect(ch chan<- prometheus.Metric) {
	counts := g.read()
	add := func(a, b int) int { return a + b }
	size := func(n int) float64 { return float64(n) }
	for name, n := range keepLargest(counts.Pools, maxWaitingPools, size, add) {
		ch <- prometheus.MustNewConstMetric(g.pools, prometheus.GaugeValue, float64(n), name)
	}
	for name, n := range keepLargest(counts.Tenants, maxWaitingTenants, size, add) {
		ch <- prometheus.MustNewConstMetric(g.tenants, prometheus.GaugeValue, float64(n), name)
	}
	shares := keepLargest(counts.Shares, maxWaitingTenants, func(s TenantShare) float64 { return s.Entitled },
		func(a, b TenantShare) TenantShare {
			return TenantShare{a.Granted + b.Granted, a.Entitled + b.Entitled}
		})
	for name, s := range shares {
		ch <- prometheus.MustNewConstMetric(g.share, prometheus.GaugeValue, s.Granted/s.Entitled, name)
	}
}

// keepLargest keeps the largest values of a map, and adds up the rest as "other".
func keepLargest[V any](all map[string]V, limit int, size func(V) float64, add func(a, b V) V) map[string]V {
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(size(all[b]), size(all[a])), cmp.Compare(a, b))
	})
	kept := make(map[string]V)
	for i, name := range names {
		label := cmp.Or(name, noValue)
		if i >= limit || name == otherValue {
			label = otherValue
		}
		if before, known := kept[label]; known {
			kept[label] = add(before, all[name])
		} else {
			kept[label] = all[name]
		}
	}
	return kept
}
