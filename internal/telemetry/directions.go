package telemetry

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Direction is how one direction of translation is doing.
type Direction struct {
	Name     string
	InFlight int
	Capacity int
}

// maxDirections bounds the label: the busiest directions are shown one by one, the rest as "other".
const maxDirections = 50

// Directions collects gauges by direction when somebody looks.
type Directions struct {
	read     func() []Direction
	inFlight *prometheus.Desc
	capacity *prometheus.Desc
}

// NewDirections makes the collector; read is called at every scrape.
func NewDirections(read func() []Direction) *Directions {
	labels := []string{"direction"}
	return &Directions{
		read:     read,
		inFlight: prometheus.NewDesc("lingua_jobs_in_flight", "Jobs this instance sees through, by direction.", labels, nil),
		capacity: prometheus.NewDesc("lingua_capacity_slots", "Slots of ready nodes that serve a direction lately asked for.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (d *Directions) Describe(ch chan<- *prometheus.Desc) {
	ch <- d.inFlight
	ch <- d.capacity
}

// Collect implements prometheus.Collector.
func (d *Directions) Collect(ch chan<- prometheus.Metric) {
	for _, one := range bound(d.read()) {
		ch <- prometheus.MustNewConstMetric(d.inFlight, prometheus.GaugeValue, float64(one.InFlight), one.Name)
		ch <- prometheus.MustNewConstMetric(d.capacity, prometheus.GaugeValue, float64(one.Capacity), one.Name)
	}
}

// bound keeps the busiest directions and adds up the rest.
func bound(all []Direction) []Direction {
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
	}
	return append(all[:maxDirections:maxDirections], rest)
}
