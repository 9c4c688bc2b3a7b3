package stats

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// SeriesStep is the time between two points of the series of a node, and seriesPoints how many there are: those of an hour.
	SeriesStep   = 5 * time.Second
	seriesPoints = int64(time.Hour / SeriesStep)
	// maxSeriesNodes bounds the nodes that have a series.
	maxSeriesNodes = 10_000
	// usedValid is how old the count of a node's used slots may be.
	usedValid = 15 * time.Second
)

// nodeState is the state of a node in a point. 0: there is no point.
type nodeState uint8

const (
	stateReady nodeState = iota + 1
	stateDegraded
	stateDraining
	stateEjected
	stateDisconnected
	stateOffline
)

var stateNames = [...]string{
	stateReady: "ready", stateDegraded: "degraded", stateDraining: "draining", stateEjected: "ejected", stateDisconnected: "disconnected",
	stateOffline: "offline",
}

// stateOf returns the state of a node in view.
func stateOf(n *core.Node) nodeState {
	switch health := n.EffectiveHealth(); {
	case n.Ejected():
		return stateEjected
	case n.AcceptsJobs() && n.Reachable():
		return stateReady
	case health == core.HealthDraining:
		return stateDraining
	case health == core.HealthOffline:
		return stateOffline
	case n.Disconnected:
		return stateDisconnected
	}
	return stateDegraded
}

// nodePoint is a point, packed into one word. Counts beyond the largest that fits are that.
type nodePoint uint64

// The fields of a packed point: the number of bits of each. meanUnit is the unit of the mean duration.
const (
	stateBits  = 3
	slotBits   = 12
	doneBits   = 12
	failedBits = 8
	meanBits   = 16
	meanUnit   = 10 * time.Millisecond
	usedNone   = 1<<slotBits - 1 // how many slots are used is not known
)

// nodeCounts is what was counted of a node since the last point.
type nodeCounts struct {
	done, failed int
	took         time.Duration // of all that are done
}

func packPoint(s nodeState, slots, used int, c nodeCounts) nodePoint {
	p, at := nodePoint(0), 0
	put := func(value, bits int) {
		p |= nodePoint(min(max(value, 0), 1<<bits-1)) << at
		at += bits
	}
	mean := 0
	if c.done > 0 {
		mean = int(c.took / time.Duration(c.done) / meanUnit)
	}
	put(int(s), stateBits)
	put(slots, slotBits)
	if used < 0 {
		used = usedNone
	} else {
		used = min(used, usedNone-1)
	}
	put(used, slotBits)
	put(c.done, doneBits)
	put(c.failed, failedBits)
	put(mean, meanBits)
	return p
}

func (p nodePoint) view(index int64) wire.NodePoint {
	at := 0
	take := func(bits int) int {
		value := int(p>>at) & (1<<bits - 1)
		at += bits
		return value
	}
	v := wire.NodePoint{AtMS: index * SeriesStep.Milliseconds(), State: stateNames[take(stateBits)], Slots: take(slotBits)}
	if used := take(slotBits); used != usedNone {
		v.UsedSlots = &used
	}
	v.Done, v.Failed = take(doneBits), take(failedBits)
	v.MeanMS = (time.Duration(take(meanBits)) * meanUnit).Milliseconds()
	return v
}

// nodePoints are the points of one node. The place of a point is its index modulo their number.
type nodePoints struct {
	tenant      core.TenantID
	first, last int64 // the indexes of the oldest and of the newest point there may be
	points      [seriesPoints]nodePoint
}

// set sets the newest point.
func (n *nodePoints) set(index int64, p nodePoint) {
	for skipped := max(n.last+1, index-seriesPoints+1); skipped < index; skipped++ {
		n.points[skipped%seriesPoints] = 0
	}
	n.points[index%seriesPoints], n.last = p, index
	n.first = max(n.first, index-seriesPoints+1)
}

// NodeSeries has the series of the nodes, by what this instance has seen of them. Make one with NewNodeSeries.
type NodeSeries struct {
	fleet   *fleet.Fleet
	missing atomic.Int64 // nodes without a series

	mu      run.Mutex
	last    int64 // the index of the newest point
	nodes   map[core.NodeID]*nodePoints
	pending map[core.NodeID]nodeCounts // since the newest point

	failures failureLog
}

// NewNodeSeries makes the series of the nodes of a fleet.
func NewNodeSeries(f *fleet.Fleet) *NodeSeries {
	return &NodeSeries{fleet: f, mu: run.NewMutex("guard_series"), nodes: make(map[core.NodeID]*nodePoints),
		pending: make(map[core.NodeID]nodeCounts)}
}

// Missing returns how many nodes have no series because there are too many.
func (s *NodeSeries) Missing() int64 { return s.missing.Load() }

// add counts an attempt that ended, with a result after some time, or because its node failed.
func (s *NodeSeries) add(node core.NodeID, done bool, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, known := s.pending[node]
	if !known && len(s.pending) >= maxSeriesNodes {
		return
	}
	if done {
		c.done++
		c.took += max(took, 0)
	} else {
		c.failed++
	}
	s.pending[node] = c
}

// Run adds a point for each node at every multiple of SeriesStep until the context ends.
func (s *NodeSeries) Run(ctx context.Context) {
	for {
		now := time.Now()
		if !run.Sleep(ctx, now.Truncate(SeriesStep).Add(SeriesStep).Sub(now)) {
			return
		}
		s.sample(time.Now())
	}
}

// sample adds the points of a time. If the clock of this machine was set back by more than a step, the series begin anew: their times would
// not be in order.
func (s *NodeSeries) sample(now time.Time) {
	index, at := now.UnixMilli()/SeriesStep.Milliseconds(), s.fleet.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case index == s.last || index == s.last-1:
		return // the timer was early, or the clock a little: what was counted is part of the next point
	case index < s.last:
		clear(s.nodes)
	}
	s.last = index
	missing := 0
	set := func(n *core.Node, state nodeState, slots, used int) {
		points := s.nodes[n.ID]
		if points == nil {
			if len(s.nodes) >= maxSeriesNodes {
				missing++
				return
			}
			points = &nodePoints{first: index, last: index}
			s.nodes[n.ID] = points
		}
		points.tenant = n.Tenant
		points.set(index, packPoint(state, slots, used, s.pending[n.ID]))
	}
	for n := range s.fleet.All() {
		used := -1
		if count, known := s.fleet.InFlightWithin(n, at, usedValid); known {
			used = count
		}
		set(n.Declared(), stateOf(n.Declared()), n.Summary().Slots(), used)
	}
	for declared := range s.fleet.Silent() {
		set(declared, stateOffline, 0, -1)
	}
	for id, points := range s.nodes {
		if index-points.last >= seriesPoints {
			delete(s.nodes, id)
		}
	}
	clear(s.pending)
	s.missing.Store(int64(missing))
}

// Points returns the tenant of a node and its points after a time, the oldest first, and whether the node is known.
func (s *NodeSeries) Points(id core.NodeID, from time.Time) (core.TenantID, []wire.NodePoint, bool) {
	list := []wire.NodePoint{}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[id]
	if n == nil {
		if registered := s.fleet.Node(id); registered != nil { // a moment ago, or there are too many nodes
			return registered.Declared().Tenant, list, true
		}
		return "", list, false
	}
	for index := max(n.first, s.last-seriesPoints+1); index <= n.last; index++ {
		if p := n.points[index%seriesPoints]; p != 0 && index*SeriesStep.Milliseconds() > from.UnixMilli() {
			list = append(list, p.view(index))
		}
	}
	return n.tenant, list, true
}
