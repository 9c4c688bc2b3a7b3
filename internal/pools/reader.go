package pools

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	// MaxExamples is how many nodes of a pool are listed.
	MaxExamples = 5
	// expensive is from what duration on the result of a count is used again: for costFactor times as long as it took, and at least for
	// minReuse.
	expensive  = 50 * time.Millisecond
	minReuse   = time.Second
	costFactor = 10
)

// Ledger reads how many slots of nodes are taken.
type Ledger interface {
	Probe(ctx context.Context, nodes []core.NodeID, into []store.Occupancy) error
}

// Reader counts the nodes of the pools for people. It takes no lock of the fleet. One count is made at a time, and an expensive one is used
// again for a while.
type Reader struct {
	follower *Follower
	picker   *pick.Picker
	ledger   Ledger

	turn   chan struct{} // held by the one that counts; the next fields are its
	last   *Overview
	until  time.Time // last may be used until then
	silent silentPools
}

// NewReader makes a reader of the pools that a follower has in force.
func NewReader(f *Follower, picker *pick.Picker, ledger Ledger) *Reader {
	return &Reader{follower: f, picker: picker, ledger: ledger, turn: make(chan struct{}, 1)}
}

// Overview is the state of the pools at a time.
type Overview struct {
	State
	At    time.Time
	Pools []Count // in the order of the definition; none if the fleet is not divided
	// Outside has the nodes that belong to no pool.
	Outside   Count
	Outsiders []Outsider // some of these nodes
}

// Count counts the nodes of one pool.
type Count struct {
	ID                   core.PoolID
	Total, Online, Ready int // registered nodes; those in view; those of them that may get jobs
	Slots, Used          int // of the ready nodes
	ASR, NMT, TTS        StageCount
	Examples             []Example
}

// StageCount counts the nodes in view that have a stage of the pipeline, and those that can use it now.
type StageCount struct{ Installed, Ready int }

// Example is a node of a pool.
type Example struct {
	Node   core.NodeID
	Reason core.Reason // why it gets no jobs; ReasonNone: it may get some
}

// Outsider is a node that belongs to no pool.
type Outsider struct {
	Node       core.NodeID
	Online     bool
	Pinned     bool // its credential names a pool
	Assignment core.Assignment
}

// Overview counts the nodes of all pools.
func (r *Reader) Overview(ctx context.Context) (*Overview, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	began := time.Now()
	if r.last != nil && began.Before(r.until) && r.last.Generation == r.follower.State().Generation {
		return r.last, nil
	}
	o, err := r.count(ctx)
	if err != nil {
		return nil, err
	}
	r.last, r.until = o, time.Time{}
	if took := time.Since(began); took > expensive {
		r.until = began.Add(took + max(minReuse, costFactor*took))
	}
	return o, nil
}

// count counts the nodes.
func (r *Reader) count(ctx context.Context) (*Overview, error) {
	f := r.follower.Fleet
	divided := f.Divided()
	o := &Overview{State: r.follower.State(), At: time.Now()}
	definition := divided.Definition()
	if definition == nil {
		return o, nil
	}
	c := counter{picker: r.picker, now: f.Now(), counts: make(map[core.PoolID]*poolCount)}
	for id, nodes := range divided.All() {
		p := c.of(id)
		for n := range nodes {
			c.add(p, n)
		}
	}
	for n, id := range r.silent.assign(definition, f) {
		c.addSilent(c.of(id), n)
	}
	if err := c.countUsed(ctx, r.ledger); err != nil {
		return nil, err
	}
	for _, id := range definition.IDs() {
		o.Pools = append(o.Pools, c.of(id).finish())
	}
	o.Outside = c.of("").finish()
	for _, x := range o.Outside.Examples {
		if y, known := outsider(f, definition, x.Node); known {
			o.Outsiders = append(o.Outsiders, y)
		}
	}
	return o, nil
}

// outsider says why a node has no pool; false if it is gone meanwhile.
func outsider(f *fleet.Fleet, definition *core.Pools, id core.NodeID) (Outsider, bool) {
	declared, online := f.SilentNode(id), false
	if n := f.Node(id); n != nil {
		declared, online = n.Declared(), true
	}
	if declared == nil {
		return Outsider{}, false
	}
	return Outsider{Node: id, Online: online, Pinned: declared.Pool != "", Assignment: definition.Assign(declared)}, true
}

// counter counts the nodes of pools.
type counter struct {
	picker *pick.Picker
	now    fleet.Instant
	counts map[core.PoolID]*poolCount
	ready  []core.NodeID
	pools  []*poolCount // of the ready nodes, by the same index
}

// poolCount is a Count while nodes are counted.
type poolCount struct {
	Count
	free, others examples // nodes that may get jobs, and those that may not
}

func (c *counter) of(id core.PoolID) *poolCount {
	p := c.counts[id]
	if p == nil {
		p = &poolCount{Count: Count{ID: id}}
		c.counts[id] = p
	}
	return p
}

// add counts a node in view.
func (c *counter) add(p *poolCount, n *fleet.Node) {
	p.Total++
	p.Online++
	declared := n.Declared()
	installed, ready := declared.StageState(func(s *core.Service) bool { return n.Marked(s, c.now) })
	p.ASR.add(installed, ready, core.StageASR)
	p.NMT.add(installed, ready, core.StageNMT)
	p.TTS.add(installed, ready, core.StageTTS)
	reason := c.picker.Availability(n, c.now)
	if reason != core.ReasonNone {
		p.others.add(Example{n.ID(), reason})
		return
	}
	p.free.add(Example{Node: n.ID()})
	p.Ready++
	p.Slots += declared.Slots()
	c.ready, c.pools = append(c.ready, n.ID()), append(c.pools, p)
}

// addSilent counts a node that is registered and not in view.
func (c *counter) addSilent(p *poolCount, n *core.Node) {
	p.Total++
	p.others.add(Example{n.ID, core.ReasonStale})
}

func (s *StageCount) add(installed, ready, stage core.Stages) {
	if installed&stage != 0 {
		s.Installed++
	}
	if ready&stage != 0 {
		s.Ready++
	}
}

// countUsed counts the slots that are taken.
func (c *counter) countUsed(ctx context.Context, ledger Ledger) error {
	occupancy := make([]store.Occupancy, len(c.ready))
	if err := ledger.Probe(ctx, c.ready, occupancy); err != nil {
		return err
	}
	for i := range occupancy {
		c.pools[i].Used += occupancy[i].InFlight()
	}
	return nil
}

// finish chooses the examples: two that get no jobs, and more of either kind if there are fewer of the other.
func (p *poolCount) finish() Count {
	const wanted = 2
	others := p.others[:min(len(p.others), max(wanted, MaxExamples-len(p.free)))]
	free := p.free[:min(len(p.free), MaxExamples-len(others))]
	p.Examples = append(append([]Example{}, free...), others...)
	return p.Count
}

// examples are the first nodes by their ids, so that they do not change from one count to the next.
type examples []Example

func (x *examples) add(e Example) {
	list := *x
	if len(list) == MaxExamples && list[MaxExamples-1].Node <= e.Node {
		return
	}
	at, _ := slices.BinarySearchFunc(list, e, func(a, b Example) int { return strings.Compare(string(a.Node), string(b.Node)) })
	list = slices.Insert(list, at, e)
	*x = list[:min(len(list), MaxExamples)]
}

// silentPools remembers the pools of silent nodes. The fleet does not, and to assign all of them again is expensive after an outage.
type silentPools struct {
	definition *core.Pools
	pools      map[*core.Node]core.PoolID
}

// assign returns the pools of the silent nodes.
func (s *silentPools) assign(definition *core.Pools, f *fleet.Fleet) map[*core.Node]core.PoolID {
	known := s.pools
	if s.definition != definition {
		known = nil
	}
	next := make(map[*core.Node]core.PoolID)
	for n := range f.Silent() {
		id, ok := known[n]
		if !ok {
			id = definition.Assign(n).Pool
		}
		next[n] = id
	}
	s.definition, s.pools = definition, next
	return next
}
