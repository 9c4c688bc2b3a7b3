package telemetry

import (
	"encoding/json"
	"math/bits"
	"sync/atomic"
	"time"
)

// Durations counts durations of whole milliseconds. The first buckets are one millisecond wide; from there on each power of two is divided
// into four, so that a quantile is at most a quarter off. The last bucket has everything that is longer.
//
// Its encoding lists only the buckets that are not empty, because instances publish it every few seconds.
type Durations [64]uint64

// subBuckets is into how many buckets a power of two is divided, and subBits its logarithm.
const (
	subBits    = 2
	subBuckets = 1 << subBits
)

// durationBucket returns the bucket of a duration.
func durationBucket(d time.Duration) int { return bucketOf(d.Milliseconds()) }

// bucketOf returns the bucket of a number.
func bucketOf(number int64) int {
	n := uint64(max(0, number))
	if n < subBuckets {
		return int(n)
	}
	octave := bits.Len64(n) - 1 - subBits // by how many bits it is longer than a bucket number
	return min(octave<<subBits+int(n>>octave), len(Durations{})-1)
}

// durationBound returns the first duration of a bucket in milliseconds.
func durationBound(bucket int) float64 {
	if bucket < subBuckets {
		return float64(bucket)
	}
	octave := bucket>>subBits - 1
	return float64(uint64(subBuckets+bucket&(subBuckets-1)) << octave)
}

// Observe counts a duration.
func (d *Durations) Observe(took time.Duration) { d[durationBucket(took)]++ }

// Add adds the counts of another histogram.
func (d *Durations) Add(other *Durations) {
	for i, n := range other {
		d[i] += n
	}
}

// Since returns what was counted after an earlier state of the same histogram.
func (d *Durations) Since(earlier *Durations) (diff Durations) {
	for i, n := range d {
		diff[i] = n - min(n, earlier[i])
	}
	return diff
}

// IsZero reports whether nothing was counted. It makes omitzero work.
func (d Durations) IsZero() bool { return d == Durations{} }

// QuantileMS estimates a quantile in milliseconds; 0 if nothing was counted. Within a bucket durations count as evenly distributed.
func (d *Durations) QuantileMS(q float64) int64 {
	total := uint64(0)
	for _, n := range d {
		total += n
	}
	rank, below := q*float64(total), 0.0
	for i, n := range d {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		low, high := durationBound(i), durationBound(i+1)
		// A bucket has the durations from low to high-1: one that is a millisecond wide has exactly one.
		return int64(low + (high-1-low)*(rank-below)/float64(n) + 0.5)
	}
	return 0
}

// MarshalJSON encodes the number and the count of each bucket that is not empty, one after the other.
func (d Durations) MarshalJSON() ([]byte, error) {
	pairs := []uint64{}
	for i, n := range d {
		if n > 0 {
			pairs = append(pairs, uint64(i), n)
		}
	}
	return json.Marshal(pairs)
}

// maxCounted bounds what is read of a bucket, so that sums of broken data do not overflow.
const maxCounted = 1 << 48

// UnmarshalJSON decodes what an instance has published, perhaps one of another version: what it does not know counts as nothing.
func (d *Durations) UnmarshalJSON(body []byte) error {
	*d = Durations{}
	var pairs []uint64
	if json.Unmarshal(body, &pairs) != nil {
		pairs = nil
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if bucket, n := pairs[i], pairs[i+1]; bucket < uint64(len(d)) && n < maxCounted {
			d[bucket] = n
		}
	}
	return nil
}

// LagDurations counts results by their lag behind the speaker, and by each part of it.
type LagDurations struct {
	Segmentation Durations `json:"segmentation,omitzero"`
	Wait         Durations `json:"wait,omitzero"`
	Dispatch     Durations `json:"dispatch,omitzero"`
	Node         Durations `json:"node,omitzero"`
	Return       Durations `json:"return,omitzero"`
	Total        Durations `json:"total,omitzero"`
}

// all returns the histograms in the order of lagNames.
func (l *LagDurations) all() [lagParts]*Durations {
	return [lagParts]*Durations{&l.Segmentation, &l.Wait, &l.Dispatch, &l.Node, &l.Return, &l.Total}
}

// AddSince adds what another one has counted after an earlier state of the same.
func (l *LagDurations) AddSince(other, earlier *LagDurations) {
	sums, others, before := l.all(), other.all(), earlier.all()
	for i := range sums {
		diff := others[i].Since(before[i])
		sums[i].Add(&diff)
	}
}

// lagCounts counts lags concurrently.
type lagCounts [lagParts][len(Durations{})]atomic.Uint64

// Lags returns how many results were sent since the start of the process, by their lag.
func (s *Sessions) Lags() (counted LagDurations) {
	for i, d := range counted.all() {
		for bucket := range d {
			d[bucket] = s.lags[i][bucket].Load()
		}
	}
	return counted
}
