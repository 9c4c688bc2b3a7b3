package fleet

import (
	"math"
	"sync/atomic"
	"time"
)

// occupancy holds the averages over the fleet. Each node has the last in-flight count that the ledger returned, which is
// valid for a few service times; after that the mean utilization stands for it.
type occupancy struct {
	meanUtilization atomic.Uint64 // float64 bits
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

// Observe records the in-flight count of a node that the ledger returned.
func (o *occupancy) Observe(n *Node, inFlight, limit int, now Instant) {
	n.inFlight.Store(packObservation(inFlight, now))
	if limit > 0 {
		// A node whose limit was lowered below its jobs is full, not more than that: a few of them would distort the mean.
		updateAverage(&o.meanUtilization, min(1, float64(inFlight)/float64(limit)))
	}
}

// BeginReserving records that a slot of a node is about to be reserved. Until EndReserving, other selections count the slot as
// taken: while the store is slow they would all choose the same free slots, and all but one of them would be refused.
func (*occupancy) BeginReserving(n *Node) { n.reserving.Add(1) }

// EndReserving records that the store has answered a reservation. Call it after the answer was observed.
func (*occupancy) EndReserving(n *Node) { n.reserving.Add(-1) }

// ObserveFree records the number of free slots after a reservation.
func (o *occupancy) ObserveFree(n *Node, free int, now Instant) {
	limit := n.Summary().Slots()
	o.Observe(n, max(0, limit-free), limit, now)
}

// one is a job in an observation, whose lowest bits hold the count.
const one = 1

// ObserveProbe records that a probe has a slot of a node. How many slots are left for other jobs is not known from it.
func (o *occupancy) ObserveProbe(n *Node) {
	for {
		observation := n.inFlight.Load()
		if observation == 0 || observation&(1<<inFlightBits-1) == 1<<inFlightBits-1 || n.inFlight.CompareAndSwap(observation, observation+one) {
			return
		}
	}
}

// ObserveRelease records that a job of a node has ended.
func (o *occupancy) ObserveRelease(n *Node) {
	for {
		observation := n.inFlight.Load()
		if observation&(1<<inFlightBits-1) == 0 || n.inFlight.CompareAndSwap(observation, observation-one) {
			return
		}
	}
}

// ObserveServiceTime records the duration of a job, which determines how long observations are valid.
func (o *occupancy) ObserveServiceTime(d time.Duration) {
	updateAverage(&o.meanServiceTime, d.Seconds())
}

// Utilization returns the estimated fraction of the slots of a node that are in use or being reserved, 1 or more if it is
// full.
func (o *occupancy) Utilization(n *Node, now Instant) float64 {
	limit := n.Summary().Slots()
	reserving := int(n.reserving.Load())
	inFlight, known := o.InFlight(n, now)
	if !known {
		// A node without a valid observation is worth a reservation, even if all others are full.
		mean := min(math.Float64frombits(o.meanUtilization.Load()), 0.99)
		if reserving == 0 || limit <= 0 {
			return mean
		}
		return max(mean, float64(reserving)/float64(limit))
	}
	if limit <= 0 {
		return 1
	}
	return float64(inFlight+reserving) / float64(limit)
}

// InFlightWithin returns the last observed number of jobs of a node, if it was observed at most so long ago.
func (o *occupancy) InFlightWithin(n *Node, now Instant, limit time.Duration) (int, bool) {
	observation := n.inFlight.Load()
	age := now - observedAt(observation)
	if observation == 0 || time.Duration(age) > limit {
		return 0, false
	}
	return int(observation & (1<<inFlightBits - 1)), true
}

// InFlight returns the last observed number of jobs of a node, if the observation is still valid.
func (o *occupancy) InFlight(n *Node, now Instant) (int, bool) {
	observation := n.inFlight.Load()
	if observation == 0 {
		return 0, false
	}
	age := now - observedAt(observation)
	valid := validServiceTimes * float64(time.Second) * math.Float64frombits(o.meanServiceTime.Load())
	if float64(age) > max(valid, float64(validAtLeast)) {
		return 0, false
	}
	return int(observation & (1<<inFlightBits - 1)), true
}
