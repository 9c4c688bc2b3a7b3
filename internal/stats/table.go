package stats

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

const (
	// maxAge is how old a snapshot may be before another one is made.
	maxAge = time.Second
	// maxStale is how old a snapshot may be that is used while another one is being made.
	maxStale = 5 * time.Second
	// recentSpan is the span in which the jobs of a node are counted.
	recentSpan = 5 * time.Minute
)

// NodeTable makes snapshots of the nodes of a fleet. Make one with New.
type NodeTable struct {
	fleet    *fleet.Fleet
	series   *NodeSeries
	presence time.Duration

	latest   atomic.Pointer[snapshot]
	building chan struct{} // holds an element while a snapshot is made
	// declared has the parts of rows that change with declarations only. Who has put the element into building may use it.
	declared map[core.NodeID]*declaredPart
	division *core.Pools // by which the pools in declared were assigned
	kinds    kinds
}

// NewNodeTable makes the table of a fleet. The series, which may be nil, have counted jobs. A node without a heartbeat for presence is
// offline.
func NewNodeTable(f *fleet.Fleet, series *NodeSeries, presence time.Duration) *NodeTable {
	return &NodeTable{fleet: f, series: series, presence: presence, building: make(chan struct{}, 1)}
}

// declaredPart is the part of a row that follows from the declaration of a node.
type declaredPart struct {
	node  *core.Node
	lower string // the id in lower case
	kind  *kind
	pool  core.PoolID
}

// row is a node in a snapshot.
type row struct {
	*declaredPart
	state        uint8   // index in NodeStates
	grantable    bool    // it would get a job if it had a free slot
	counted      bool    // done and failed are known
	load         float32 // negative: unknown
	kindNumber   int32   // in the snapshot
	slots, used  int32
	done, failed int32
	heartbeatMS  int64 // 0: unknown
}

// snapshot is the table at one time. It is immutable, except that orders are made when they are needed.
type snapshot struct {
	made    time.Time
	partial bool
	rows    []row // by name
	kinds   int   // how many there are
	orders  [sortKeys][2]order
}

// order has the positions of the rows in the order of a key.
type order struct {
	once      sync.Once
	positions []int32
}

// current returns a snapshot that is at most maxAge old, or a little older while another caller makes one. The error is that of the
// context.
func (t *NodeTable) current(ctx context.Context) (*snapshot, error) {
	s := t.latest.Load()
	age := maxStale
	if s != nil {
		age = time.Since(s.made)
	}
	switch {
	case age < maxAge:
		return s, nil
	case age < maxStale:
		select {
		case t.building <- struct{}{}:
		default:
			return s, nil
		}
	default:
		select {
		case t.building <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer func() { <-t.building }()
	if s = t.latest.Load(); s == nil || time.Since(s.made) >= maxAge { // else another caller has made one meanwhile
		s = t.build()
		t.latest.Store(s)
	}
	return s, nil
}

// build makes a snapshot. It takes no lock that dispatch takes.
func (t *NodeTable) build() *snapshot {
	partial := t.fleet.Partial() // before the nodes are read: it says whether they are all
	now, at := time.Now(), t.fleet.Now()
	division := t.fleet.Division()
	known := t.declared
	if division != t.division {
		known = nil
	}
	var recent map[core.NodeID]RecentCounts
	if t.series != nil {
		recent = t.series.Recent(recentSpan)
	}
	s := &snapshot{made: now, partial: partial, rows: make([]row, 0, t.fleet.Len())}
	next := make(map[core.NodeID]*declaredPart, t.fleet.Len())
	t.kinds.begin()
	add := func(n *core.Node) *row {
		part := known[n.ID]
		if part == nil || part.node != n {
			part = t.newDeclaredPart(n, division)
		}
		next[n.ID] = part
		counts, counted := recent[n.ID]
		s.rows = append(s.rows, row{
			declaredPart: part, state: uint8(StateOffline), load: -1, kindNumber: t.kinds.use(part.kind), slots: int32(n.Slots()),
			counted: counted, done: int32(counts.Done), failed: int32(counts.Failed),
		})
		return &s.rows[len(s.rows)-1]
	}
	for n := range t.fleet.All() {
		declared := n.Declared()
		r := add(declared)
		r.state = uint8(StateOf(declared))
		r.grantable = n.Summary().Grantable() && n.Unready(false, at) == core.ReasonNone
		load := n.Load()
		if highest := max(load.CPU, load.GPU, load.Memory); highest >= 0 {
			r.load = float32(highest)
		}
		r.heartbeatMS = now.Add(-n.SinceSeen(at)).UnixMilli()
		if used, ok := t.fleet.InFlightWithin(n, at, t.presence); ok {
			r.used = int32(used)
		}
	}
	for declared, seen := range t.fleet.SilentSince() {
		if next[declared.ID] == nil { // else it has come back, or fallen silent, meanwhile
			add(declared).heartbeatMS = now.Add(-time.Duration(at - seen)).UnixMilli()
		}
	}
	slices.SortFunc(s.rows, func(a, b row) int { return cmp.Compare(a.node.ID, b.node.ID) })
	t.declared, t.division = next, division
	s.kinds = len(t.kinds.inUse)
	t.kinds.end()
	return s
}

func (t *NodeTable) newDeclaredPart(n *core.Node, division *core.Pools) *declaredPart {
	part := &declaredPart{node: n, lower: strings.ToLower(string(n.ID)), kind: t.kinds.of(&n.Capability)}
	if division != nil {
		part.pool = division.Assign(n).Pool
	}
	return part
}

// ordered returns the positions of the rows in the order of a key. Rows with the same value are in the order of their names.
func (s *snapshot) ordered(key SortKey, descending bool) []int32 {
	direction := 0
	if descending {
		direction = 1
	}
	o := &s.orders[key][direction]
	o.once.Do(func() {
		o.positions = make([]int32, len(s.rows))
		for i := range o.positions {
			o.positions[i] = int32(i)
		}
		values := make([]float64, len(s.rows))
		for i := range s.rows {
			if values[i] = s.rows[i].value(key, i); descending {
				values[i] = -values[i]
			}
		}
		slices.SortFunc(o.positions, func(a, b int32) int { return cmp.Or(cmp.Compare(values[a], values[b]), cmp.Compare(a, b)) })
	})
	return o.positions
}
