package stats

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// A ring keeps tallies of equal periods of time, the latest ones only. The name of a bucket in the store repeats, so that it is
// overwritten when the ring is full.
type ring struct {
	prefix string
	period time.Duration
	length int64
}

var (
	minutes  = ring{"m", time.Minute, 60}
	quarters = ring{"q", 15 * time.Minute, 96}
	rings    = []ring{minutes, quarters}
)

// index numbers the period of a time.
func (r ring) index(at time.Time) int64 { return at.UnixNano() / int64(r.period) }

// name is the name of the bucket of a period.
func (r ring) name(index int64) string { return fmt.Sprint(r.prefix, index%r.length) }

// bucket has the tally of one period.
type bucket struct {
	Index int64 `json:"index"` // of the period
	Tally tally `json:"tally"`
}

// history is what became of requests in the last day. It also has up to where the counts of each instance are part of it, so that another
// leader neither loses nor repeats any.
type history struct {
	buckets map[string]*bucket
	counted map[core.InstanceID]counted
	series  *clusterPoints
	watch   *coverageWatch
	unsaved map[string]func() any // the parts that were changed and are not stored yet, by name
}

func newHistory() *history {
	return &history{buckets: make(map[string]*bucket), counted: make(map[core.InstanceID]counted), series: new(clusterPoints),
		watch: newCoverageWatch(), unsaved: make(map[string]func() any)}
}

// countedPart is the name of the part of the stored history that has what was counted.
const countedPart = "counted"

// decodeHistory decodes the parts of a stored history. Parts that cannot be read, because another version wrote them, are left out.
func decodeHistory(parts map[string][]byte) *history {
	h := newHistory()
	for name, body := range parts {
		if name == countedPart {
			_ = json.Unmarshal(body, &h.counted)
			continue
		}
		if name == uncoveredPart {
			h.watch = decodeWatch(body)
			continue
		}
		if strings.HasPrefix(name, seriesPart) {
			continue
		}
		var b bucket
		if json.Unmarshal(body, &b) == nil {
			b.Tally.complete()
			h.buckets[name] = &b
		}
	}
	if h.counted == nil {
		h.counted = make(map[core.InstanceID]counted)
	}
	h.series = decodePoints(parts, time.Now())
	return h
}

// add adds what an instance has published. What it published before is part of the history already.
func (h *history) add(id core.InstanceID, p counted, now time.Time, step *stepCounts) {
	before := h.counted[id]
	if p.Seq <= before.Seq {
		return // it was read before, or arrived late
	}
	diff := p.Total.since(before.Total)
	h.counted[id] = p
	step.add(diff)
	for i, n := range p.Load.Dispatched {
		step.dispatch[i] += n - min(n, before.Load.Dispatched[i])
	}
	step.retries += p.Load.Retries - min(p.Load.Retries, before.Load.Retries)
	step.lag.AddSince(&p.Load.Lag, &before.Load.Lag)
	for _, r := range rings {
		h.bucket(r, now).Tally.add(diff)
	}
}

// addPoint adds a point to the series of the cluster.
func (h *history) addPoint(p wire.ClusterPoint) {
	h.series.add(p)
	index := seriesRing.index(time.UnixMilli(p.AtMS))
	h.unsaved[seriesRing.name(index)] = func() any { return h.series.minute(index) }
}

// bucket returns the bucket of a time, which begins empty. It is stored with the next parts.
func (h *history) bucket(r ring, at time.Time) *bucket {
	index := r.index(at)
	name := r.name(index)
	b := h.buckets[name]
	if b == nil || b.Index != index {
		b = &bucket{Index: index, Tally: newTally()}
		h.buckets[name] = b
	}
	h.unsaved[name] = func() any { return b }
	return b
}

// retain forgets what was counted of instances that are gone.
func (h *history) retain(present map[core.InstanceID]bool) {
	for id := range h.counted {
		if !present[id] {
			delete(h.counted, id)
		}
	}
}

// parts encodes the parts that were changed and are not stored yet: those of the current periods, and of earlier ones if they could not be
// stored then.
func (h *history) parts(now time.Time) (map[string][]byte, error) {
	for _, r := range rings {
		h.bucket(r, now)
	}
	h.unsaved[countedPart] = func() any { return h.counted }
	parts := make(map[string][]byte, len(h.unsaved))
	for name, part := range h.unsaved {
		body, err := json.Marshal(part())
		if err != nil {
			return nil, err
		}
		parts[name] = body
	}
	return parts, nil
}

// stored notes that the parts are stored.
func (h *history) stored() { clear(h.unsaved) }

// sum returns the sum of the buckets of the last periods, the current one included.
func (h *history) sum(r ring, periods int64, now time.Time) tally {
	total := newTally()
	last := r.index(now)
	for index := last - periods + 1; index <= last; index++ {
		if b := h.buckets[r.name(index)]; b != nil && b.Index == index {
			total.each(b.Tally, func(a, c counts, _ int) {
				for name, n := range c {
					a[name] += n
				}
			})
		}
	}
	return total
}
