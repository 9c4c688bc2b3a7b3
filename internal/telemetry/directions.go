package telemetry

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Direction has the figures of one direction.
type Direction struct {
	Name     string
	InFlight int
	Capacity int
	Used     int // of Capacity, by jobs of all directions
}

// maxDirections bounds the label: the busiest directions have their own, the rest is "other".
const maxDirections = 50

// Directions collects the gauges by direction.
type Directions struct {
	read     func() []Direction
	inFlight *prometheus.Desc
	capacity *prometheus.Desc
	used     *prometheus.Desc
}

// NewDirections makes the collector; read is called at every scrape.
func NewDirections(read func() []Direction) *Directions {
	labels := []string{"direction"}
	return &Directions{
		read:     read,
		inFlight: prometheus.NewDesc("lingua_jobs_in_flight", "In-flight jobs of this instance, by direction.", labels, nil),
		capacity: prometheus.NewDesc("lingua_capacity_slots",
			"Slots of ready nodes that may be granted, in a direction that was requested recently.", labels, nil),
		used: prometheus.NewDesc("lingua_used_slots",
			"Of lingua_capacity_slots, those in use by jobs of any direction and instance, as far as this instance has learned in the "+
				"last seconds.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (d *Directions) Describe(ch chan<- *prometheus.Desc) {
	ch <- d.inFlight
	ch <- d.capacity
	ch <- d.used
}

// Collect implements prometheus.Collector.
func (d *Directions) Collect(ch chan<- prometheus.Metric) {
	for _, direction := range mergeRest(d.read()) {
		ch <- prometheus.MustNewConstMetric(d.inFlight, prometheus.GaugeValue, float64(direction.InFlight), direction.Name)
		ch <- prometheus.MustNewConstMetric(d.capacity, prometheus.GaugeValue, float64(direction.Capacity), direction.Name)
		ch <- prometheus.MustNewConstMetric(d.used, prometheus.GaugeValue, float64(direction.Used), direction.Name)
	}
}

// mergeRest keeps the busiest directions and sums up the rest.
func mergeRest(all []Direction) []Direction {
	slices.SortFunc(all, func(a, b Direction) int {
		return cmp.Or(cmp.Compare(b.InFlight, a.InFlight), cmp.Compare(b.Capacity, a.Capacity), cmp.Compare(a.Name, b.Name))
	})
	if len(all) <= maxDirections {
		return all
	}
	rest := Direction{Name: "other"}
	for _, d := range all[maxDirections:] {
		rest.InFlight += d.InFlight
		rest.Capacity += d.Capacity
		rest.Used += d.Used
	}
	return append(all[:maxDirections:maxDirections], rest)
}
