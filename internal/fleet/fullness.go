package fleet

import (
	"math"
	"sync/atomic"
	"time"
)

// fullness is what is believed about how full nodes are: the ledger's last answer for each, worth less as
// it ages, and the average, which stands in for what is not known.
type occupancy struct {
	meanUtilization atomic.Uint64 // float64 bits
	meanServiceTime atomic.Uint64 // mean time a job takes, float64 bits of seconds
}

const (
	averageWeight = 1.0 / 64
	initialServiceTime  = 2.0                    // seconds, until a job has been seen to end
	validServiceTimes       = 3                      // service times that an answer is believed …
	validAtLeast   = 250 * time.Millisecond // … however short they are
)

func (u *occupancy) init() {
	u.meanServiceTime.Store(math.Float64bits(initialServiceTime))
}

// blend moves an average towards a value. Two writers at once may lose one of the two: it is an average.
func updateAverage(average *atomic.Uint64, value float64) {
	old := math.Float64frombits(average.Load())
	average.Store(math.Float64bits(old + (value-old)*averageWeight))
}

// An observation packs the in-flight count and the millisecond it was seen into one word, so that both are
// read and written at once. Milliseconds are counted from 1; 0 is "never seen".
const inFlightBits = 16

func packObservation(inFlight int, now Instant) uint64 {
	return uint64(now/Instant(time.Millisecond)+1)<<inFlightBits | uint64(min(max(inFlight, 0), 1<<inFlightBits-1))
}

// Observe notes how many jobs the ledger says a node has.
func (f *Fleet) Observe(n *Node, inFlight, limit int, now Instant) {
	n.inFlight.Store(packObservation(inFlight, now))
	if limit > 0 {
		updateAverage(&f.occupancy.meanUtilization, float64(inFlight)/float64(limit))
	}
}

// Left notes how many slots a reservation left.
func (f *Fleet) ObserveFree(n *Node, free int, now Instant) {
	limit := n.Summary().MaxJobs()
	f.Observe(n, max(0, limit-free), limit, now)
}

// Freed notes that one job of a node's is over.
func (f *Fleet) ObserveRelease(n *Node) {
	const one = 1 // the lowest bits hold the count
	for {
		seen := n.inFlight.Load()
		if seen&(1<<inFlightBits-1) == 0 || n.inFlight.CompareAndSwap(seen, seen-one) {
			return
		}
	}
}

// Served notes how long a job took, which says how fast what is known of a node grows old.
func (f *Fleet) ObserveServiceTime(d time.Duration) { updateAverage(&f.occupancy.meanServiceTime, d.Seconds()) }

// Share is the part of a node believed to be taken, 1 or more when it is believed full.
func (f *Fleet) Utilization(n *Node, now Instant) float64 {
	inFlight, known := f.InFlight(n, now)
	if !known {
		// An unknown node is worth trying, however full the others are.
		return min(math.Float64frombits(f.occupancy.meanUtilization.Load()), 0.99)
	}
	limit := n.Summary().MaxJobs()
	if limit <= 0 {
		return 1
	}
	return float64(inFlight) / float64(limit)
}

// InFlight is how many jobs the node was last seen with, if that was lately.
func (f *Fleet) InFlight(n *Node, now Instant) (int, bool) {
	seen := n.inFlight.Load()
	if seen == 0 {
		return 0, false
	}
	age := now - Instant(seen>>inFlightBits-1)*Instant(time.Millisecond)
	good := validServiceTimes * float64(time.Second) * math.Float64frombits(f.occupancy.meanServiceTime.Load())
	if float64(age) > max(good, float64(validAtLeast)) {
		return 0, false
	}
	return int(seen & (1<<inFlightBits - 1)), true
}
