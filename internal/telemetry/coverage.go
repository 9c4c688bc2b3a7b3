package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Coverage is what the current snapshot of the statistics has about the whole fleet, in numbers.
type Coverage struct {
	Nodes      map[string]int // registered nodes by health
	Directions map[string]int // directions with jobs in the last day by the number of their ready nodes: "0", "1" or "more"
}

// coverage collects the gauges of the fleet.
type coverage struct {
	read       func() (Coverage, bool)
	nodes      *prometheus.Desc
	directions *prometheus.Desc
}

// NewCoverage makes the collector; read is called at every scrape, and returns false while there is no snapshot.
func NewCoverage(read func() (Coverage, bool)) prometheus.Collector {
	return &coverage{
		read: read,
		nodes: prometheus.NewDesc("lingua_nodes",
			"Registered nodes of all instances by health, in the snapshot of the statistics. Every instance has the same: do not add "+
				"them up.", []string{"health"}, nil),
		directions: prometheus.NewDesc("lingua_directions",
			"Directions with jobs in the last day by how many ready nodes they have (0, 1, more), in the snapshot of the statistics. "+
				"Every instance has the same: do not add them up.",
			[]string{"ready"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *coverage) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.nodes
	ch <- c.directions
}

// Collect implements prometheus.Collector.
func (c *coverage) Collect(ch chan<- prometheus.Metric) {
	now, known := c.read()
	if !known {
		return
	}
	for health, n := range now.Nodes {
		ch <- prometheus.MustNewConstMetric(c.nodes, prometheus.GaugeValue, float64(n), health)
	}
	for ready, n := range now.Directions {
		ch <- prometheus.MustNewConstMetric(c.directions, prometheus.GaugeValue, float64(n), ready)
	}
}
