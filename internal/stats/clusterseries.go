package stats

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// seriesFor is how long points are kept.
	seriesFor = time.Hour
	// maxClockStep is by how much a point may be older than the one before it, because another leader's clock is behind: it is left out.
	// A larger step means that a clock was wrong.
	maxClockStep = time.Minute
)

// clusterPoints are the points of the cluster in the last hour, the oldest first.
type clusterPoints struct{ points []wire.ClusterPoint }

// add adds a point, and drops those that are older than an hour by then.
func (c *clusterPoints) add(p wire.ClusterPoint) {
	if n := len(c.points); n > 0 && p.AtMS <= c.points[n-1].AtMS {
		if c.points[n-1].AtMS-p.AtMS < maxClockStep.Milliseconds() {
			return
		}
		c.points = nil
	}
	c.points = append(c.points, p)
	oldest := p.AtMS - seriesFor.Milliseconds()
	if old := slices.IndexFunc(c.points, func(q wire.ClusterPoint) bool { return q.AtMS > oldest }); old > 0 {
		c.points = slices.Clone(c.points[old:]) // a reader may have the others
	}
}

// last is the newest point; nil: there is none.
func (c *clusterPoints) last() *wire.ClusterPoint {
	if len(c.points) == 0 {
		return nil
	}
	return &c.points[len(c.points)-1]
}

// seriesPart is the prefix of the names of the parts of the stored history that have the points of a minute each.
const seriesPart = "s"

// seriesRing names the parts.
var seriesRing = ring{seriesPart, time.Minute, int64(seriesFor / time.Minute)}

// minutePoints are the points of one minute, as they are stored.
type minutePoints struct {
	Index  int64               `json:"index"`
	Points []wire.ClusterPoint `json:"points"`
}

// minute returns the points of a minute.
func (c *clusterPoints) minute(index int64) *minutePoints {
	m := &minutePoints{Index: index}
	for _, p := range c.points {
		if seriesRing.index(time.UnixMilli(p.AtMS)) == index {
			m.Points = append(m.Points, p)
		}
	}
	return m
}

// decodePoints returns the points of the last hour among the parts of a stored history. Parts that cannot be read are left out.
func decodePoints(parts map[string][]byte, now time.Time) *clusterPoints {
	var all []wire.ClusterPoint
	for name, body := range parts {
		var m minutePoints
		if !strings.HasPrefix(name, seriesPart) || json.Unmarshal(body, &m) != nil {
			continue
		}
		if age := seriesRing.index(now) - m.Index; age >= 0 && age < seriesRing.length {
			all = append(all, m.Points...)
		}
	}
	slices.SortFunc(all, func(a, b wire.ClusterPoint) int { return cmp.Compare(a.AtMS, b.AtMS) })
	c := new(clusterPoints)
	for _, p := range all {
		c.add(p)
	}
	return c
}

// stepCounts is what all instances have counted since the step before.
type stepCounts struct {
	tally
	waiting  int
	dispatch telemetry.DispatchBuckets
	retries  int64
	lag      telemetry.LagDurations

	waitingBy counts                          // requests that wait, by direction
	waits     map[string]*telemetry.Durations // how long those of the last minutes waited, by direction
}

func newStepCounts() *stepCounts {
	return &stepCounts{tally: newTally(), waitingBy: counts{}, waits: make(map[string]*telemetry.Durations)}
}

// newPoint makes the point of a snapshot. Its counts are those since the point before, if that was within the hour.
func newPoint(s *wire.Stats, c *stepCounts, before *wire.ClusterPoint, interval time.Duration) wire.ClusterPoint {
	p := wire.ClusterPoint{
		AtMS: s.GeneratedMS, SpanMS: interval.Milliseconds(),
		Done: c.Outcomes[core.StateDone.String()], Failed: c.Outcomes[core.StateFailed.String()],
		Cancelled: c.Outcomes[core.StateCancelled.String()],
		Refused:   c.Refused.sum(), Waiting: c.waiting, InFlight: s.InFlight, Sessions: s.Sessions, Instances: s.Instances.Present,
		Ready: s.Nodes.Ready, Degraded: s.Nodes.Degraded, Draining: s.Nodes.Draining, Ejected: s.Nodes.Ejected,
		Disconnected: s.Nodes.Disconnected, Offline: s.Nodes.Offline, Slots: s.Nodes.Slots,
		Retries: max(0, c.retries), UsedSlots: usedSlots(s), Lag: lagOf(&c.lag),
		DispatchP50MS: quantileMS(&c.dispatch, 0.5), DispatchP95MS: quantileMS(&c.dispatch, 0.95),
	}
	if len(c.Refusals) > 0 {
		p.Refusals = c.Refusals
	}
	if before != nil && p.AtMS > before.AtMS && p.AtMS-before.AtMS < seriesFor.Milliseconds() {
		p.SpanMS = p.AtMS - before.AtMS
	}
	return p
}

// usedSlots returns how many slots of the ready nodes are in use. The leader has not heard of each node lately, but it knows how many jobs
// are in flight, and each of them uses a slot.
func usedSlots(s *wire.Stats) int { return min(max(s.Nodes.UsedSlots, s.InFlight), s.Nodes.Slots) }

// lagOf describes the lag of the results of a step; nil: there were none.
func lagOf(l *telemetry.LagDurations) *wire.ClusterLag {
	if l.Total.IsZero() {
		return nil
	}
	quantiles := func(d *telemetry.Durations) wire.Quantiles {
		return wire.Quantiles{P50MS: d.QuantileMS(0.5), P95MS: d.QuantileMS(0.95), P99MS: d.QuantileMS(0.99)}
	}
	return &wire.ClusterLag{Quantiles: quantiles(&l.Total), Stages: wire.LagStages{
		Segmentation: quantiles(&l.Segmentation), Wait: quantiles(&l.Wait), Dispatch: quantiles(&l.Dispatch), Node: quantiles(&l.Node),
		Return: quantiles(&l.Return),
	}}
}

// quantileMS estimates a quantile of the durations of dispatches in milliseconds; 0: there were none.
func quantileMS(b *telemetry.DispatchBuckets, q float64) float64 {
	total := uint64(0)
	for _, n := range b {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank, below := q*float64(total), 0.0
	for i, n := range b {
		if below+float64(n) >= rank && n > 0 {
			low, high := telemetry.DispatchBound(i-1), telemetry.DispatchBound(i)
			at := low.Seconds() + (high-low).Seconds()*(rank-below)/float64(n)
			return math.Round(at*1e6) / 1e3
		}
		below += float64(n)
	}
	return telemetry.DispatchBound(len(b)-1).Seconds() * 1e3
}
