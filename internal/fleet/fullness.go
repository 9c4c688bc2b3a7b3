package fleet

import (
	"math"
	"sync/atomic"
	"time"
)

// fullness is what is believed about how full nodes are: the ledger's last answer for each, worth less as
// it ages, and the average, which stands in for what is not known.
type fullness struct {
	average atomic.Uint64 // float64 bits
	service atomic.Uint64 // mean time a job takes, float64 bits of seconds
}

const (
	averageWeight = 1.0 / 64
	firstService  = 2.0                    // seconds, until a job has been seen to end
	goodFor       = 3                      // service times that an answer is believed …
	goodAtLeast   = 250 * time.Millisecond // … however short they are
)

func (u *fullness) init() {
	u.service.Store(math.Float64bits(firstService))
}

// blend moves an average towards a value. Two writers at once may lose one of the two: it is an average.
func blend(average *atomic.Uint64, value float64) {
	old := math.Float64frombits(average.Load())
	average.Store(math.Float64bits(old + (value-old)*averageWeight))
}

// An observation packs the in-flight count and the millisecond it was seen into one word, so that both are
// read and written at once. Milliseconds are counted from 1; 0 is "never seen".
const inFlightBits = 16

func pack(inFlight int, now Instant) uint64 {
	return uint64(now/Instant(time.Millisecond)+1)<<inFlightBits | uint64(min(max(inFlight, 0), 1<<inFlightBits-1))
}

// Observe notes how many jobs the ledger says a node has.
func (f *Fleet) Observe(n *Node, inFlight, limit int, now Instant) {
	n.flight.Store(pack(inFlight, now))
	if limit > 0 {
		blend(&f.fullness.average, float64(inFlight)/float64(limit))
	}
}

// Left notes how many slots a reservation left.
func (f *Fleet) Left(n *Node, free int, now Instant) {
	limit := n.Summary().MaxJobs()
	f.Observe(n, max(0, limit-free), limit, now)
}

// Freed notes that one job of a node's is over.
func (f *Fleet) Freed(n *Node) {
	const one = 1 // the lowest bits hold the count
	for {
		seen := n.flight.Load()
		if seen&(1<<inFlightBits-1) == 0 || n.flight.CompareAndSwap(seen, seen-one) {
			return
		}
	}
}

// Served notes how long a job took, which says how fast what is known of a node grows old.
func (f *Fleet) Served(d time.Duration) { blend(&f.fullness.service, d.Seconds()) }

// Share is the part of a node believed to be taken, 1 or more when it is believed full.
func (f *Fleet) Share(n *Node, now Instant) float64 {
	inFlight, known := f.InFlight(n, now)
	if !known {
		// An unknown node is worth trying, however full the others are.
		return min(math.Float64frombits(f.fullness.average.Load()), 0.99)
	}
	limit := n.Summary().MaxJobs()
	if limit <= 0 {
		return 1
	}
	return float64(inFlight) / float64(limit)
}

// InFlight is how many jobs the node was last seen with, if that was lately.
func (f *Fleet) InFlight(n *Node, now Instant) (int, bool) {
	seen := n.flight.Load()
	if seen == 0 {
		return 0, false
	}
	age := now - Instant(seen>>inFlightBits-1)*Instant(time.Millisecond)
	good := goodFor * float64(time.Second) * math.Float64frombits(f.fullness.service.Load())
	if float64(age) > max(good, float64(goodAtLeast)) {
		return 0, false
	}
	return int(seen & (1<<inFlightBits - 1)), true
}
