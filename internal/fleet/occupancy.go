package fleet

import (
	"math"
	"sync/atomic"
	"time"
)

// occupancy holds the averages over the fleet. How many slots of a node are taken is the sum of two numbers. The jobs that this instance
// has there are counted, so that their number is exact whichever instance receives their results. The jobs of other instances are known
// from the last answer of the ledger, which turns into the mean of all nodes over a few service times. So nothing that a selection compares
// depends on which instance a node is connected to, or on when it was used last.
type occupancy struct {
	meanUtilization atomic.Uint64 // by jobs of other instances, float64 bits
	meanServiceTime atomic.Uint64 // mean duration of a job in seconds, float64 bits
}

const (
	averageWeight      = 1.0 / 64
	initialServiceTime = 2.0                    // seconds, until the first job has ended
	validServiceTimes  = 3                      // mean service times for which an observation is valid …
	validAtLeast       = 250 * time.Millisecond // … and at least this long
)

func (o *occupancy) initOccupancy() {
	o.meanServiceTime.Store(math.Float64bits(initialServiceTime))
}

// updateAverage moves an average towards a value. Of two concurrent updates one may be lost, which does no harm.
func updateAverage(average *atomic.Uint64, value float64) {
	old := math.Float64frombits(average.Load())
	average.Store(math.Float64bits(old + (value-old)*averageWeight))
}

// An observation packs the in-flight count and its time in milliseconds into one word, so that both are read and written
// atomically. Milliseconds count from 1; 0 means no observation.
const inFlightBits = 16

func packObservation(inFlight int, now Instant) uint64 {
	return uint64(now/Instant(time.Millisecond)+1)<<inFlightBits | uint64(min(max(inFlight, 0), 1<<inFlightBits-1))
}

// observedAt returns the time of an observation.
func observedAt(observation uint64) Instant {
	return Instant(observation>>inFlightBits-1) * Instant(time.Millisecond)
}

// BeginJob records that a slot of the node is about to be reserved for a job of this instance. Until EndJob, selections count the slot
// as taken: while the store is slow they would all choose the same free slots, and all but one of them would be refused.
func (n *Node) BeginJob() { n.ours.Add(1) }

// EndJob records that a job for which BeginJob was called does not take a slot of the node any more, or never got one.
func (n *Node) EndJob() { n.ours.Add(-1) }

// Observe records the in-flight count of a node that the ledger returned.
func (o *occupancy) Observe(n *Node, inFlight, limit int, now Instant) {
	others := max(0, inFlight-int(n.ours.Load()))
	n.others.Store(packObservation(others, now))
	if limit > 0 {
		// A node whose limit was lowered below its jobs is full, not more than that: a few of them would distort the mean.
		updateAverage(&o.meanUtilization, min(1, float64(others)/float64(limit)))
	}
}

// ObserveFree records the number of free slots after a reservation.
func (o *occupancy) ObserveFree(n *Node, free int, now Instant) {
	limit := n.Summary().Slots()
	o.Observe(n, max(0, limit-free), limit, now)
}

// ObserveServiceTime records the duration of a job, which determines how long observations are valid.
func (o *occupancy) ObserveServiceTime(d time.Duration) {
	updateAverage(&o.meanServiceTime, d.Seconds())
}

// Utilization returns the estimated fraction of the slots of a node that are in use or being reserved, 1 or more if it is
// full.
func (o *occupancy) Utilization(n *Node, now Instant) float64 {
	limit := float64(n.Summary().Slots())
	if limit <= 0 {
		return 1
	}
	ours := float64(n.ours.Load())
	others := math.Float64frombits(o.meanUtilization.Load()) * limit
	observed, age, known := n.observed(now)
	weight := 1 - float64(age)/float64(o.valid())
	if known = known && weight >= 0; known {
		// Jobs of others end and begin without being seen here. If only the end of our own were, an instance would keep to the slots that
		// it has.
		others += (float64(observed) - others) * min(weight, 1)
	}
	// Whole jobs: among nodes that are nearly all idle, one of which nothing is known is as good as one that was seen to be idle.
	share := (ours + math.Round(others)) / limit
	if !known && ours < limit {
		return min(share, 0.99) // it is worth a reservation, even if all others are full
	}
	return share
}

// observed returns how many jobs of other instances a node had when it was last observed, and how long ago that was.
func (n *Node) observed(now Instant) (others int, age time.Duration, known bool) {
	observation := n.others.Load()
	return int(observation & (1<<inFlightBits - 1)), time.Duration(now - observedAt(observation)), observation != 0
}

// valid returns how long an observation says something.
func (o *occupancy) valid() time.Duration {
	serviceTimes := validServiceTimes * float64(time.Second) * math.Float64frombits(o.meanServiceTime.Load())
	return max(time.Duration(serviceTimes), validAtLeast)
}

// InFlightWithin returns the number of jobs of a node, if it was observed at most so long ago.
func (o *occupancy) InFlightWithin(n *Node, now Instant, limit time.Duration) (int, bool) {
	others, age, known := n.observed(now)
	if !known || age > limit {
		return 0, false
	}
	return others + int(n.ours.Load()), true
}

// InFlight returns the number of jobs of a node, if the last observation is still valid.
func (o *occupancy) InFlight(n *Node, now Instant) (int, bool) {
	return o.InFlightWithin(n, now, o.valid())
}
