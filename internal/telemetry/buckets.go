package telemetry

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DispatchBuckets counts dispatches by their duration since the start of the process. Bucket i has those up to DispatchBound(i), the last
// one all others. They are published to other instances.
type DispatchBuckets [20]uint64

// firstBound is the bound of the first bucket; each other is twice the one before.
const firstBound = 50 * time.Microsecond

// DispatchBound is the bound of a bucket; 0 for bucket -1.
func DispatchBound(i int) time.Duration {
	if i < 0 {
		return 0
	}
	return firstBound << i
}

// dispatchBounds are the bounds of the buckets but the last, in seconds.
var dispatchBounds = prometheus.ExponentialBuckets(firstBound.Seconds(), 2, len(DispatchBuckets{})-1)

// dispatchBuckets counts concurrently.
type dispatchBuckets [len(DispatchBuckets{})]atomic.Uint64

func (b *dispatchBuckets) observe(took time.Duration) {
	i := 0
	if took > firstBound {
		i = min(bits.Len64(uint64((took-1)/firstBound)), len(b)-1)
	}
	b[i].Add(1)
}

// Dispatched returns how many dispatches there were, by their duration.
func (d *decisions) Dispatched() (counts DispatchBuckets) {
	for i := range d.dispatched {
		counts[i] = d.dispatched[i].Load()
	}
	return counts
}
