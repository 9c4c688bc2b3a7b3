package scale

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// node is a node of the model. It is the handle of the node in the fleet view.
type node struct {
	declared *core.Node
	view     *fleet.Node // nil: its region has failed
	group    *group
	place    int // in group.free; -1: it has no free slot
	reserved int // slots that the ledger has granted
	running  int // utterances that it has
}

// Hint implements store.Handle.
func (*node) Hint() *atomic.Int64 { return nil }

func (n *node) free() int { return n.declared.MaxJobs - n.reserved }

// group is the nodes that have the same region, pool and languages: what they can serve is the same.
type group struct {
	region int
	pool   core.PoolID
	serves []bool // by direction
	alive  int
	free   []*node // those that have a free slot
}

// ledger has the slots of all nodes, as the ledger of the store has them. It finds nodes with free slots at once.
type ledger struct {
	fleet  *fleet.Fleet
	nodes  []*node
	groups []*group
	slots  int // of the nodes that are there
	taken  int
}

// newLedger makes the nodes and registers them with the fleet view.
func newLedger(rng *rand.Rand, fl *fleet.Fleet, count int) *ledger {
	l := &ledger{fleet: fl}
	groups := make(map[[3]int]*group)
	for i := range count {
		languages := choose(rng, languagePlans, func(p *languagePlan) float64 { return p.part })
		region := choose(rng, regionPlans, func(p *regionPlan) float64 { return p.part })
		bound := 0
		if rng.Float64() < boundPart {
			bound = 1
		}
		key := [3]int{languages, region, bound}
		if groups[key] == nil {
			groups[key] = newGroup(languages, region, bound == 1)
			l.groups = append(l.groups, groups[key])
		}
		n := &node{group: groups[key], place: -1, declared: declare(i, slotPlans[choose(rng, slotPlans, func(p *slotPlan) float64 { return p.part })].slots, languages, groups[key])}
		l.nodes = append(l.nodes, n)
		l.join(n)
	}
	return l
}

func newGroup(languages, region int, bound bool) *group {
	g := &group{region: region, pool: generalPool}
	if bound {
		g.pool = boundPool
	}
	set := languagePlans[languages].languages
	for _, d := range directionPlans {
		g.serves = append(g.serves, set.Has(d.Src) && set.Has(d.Tgt))
	}
	return g
}

// generalPool is the pool of the nodes that are not in boundPool.
const generalPool core.PoolID = "general"

// division is the pools of the fleet: nodes belong to them by a service.
func division() *core.Pools {
	d := &core.Pools{Overrides: make(map[core.TenantID]core.PoolID)}
	for _, id := range []core.PoolID{generalPool, boundPool} {
		d.Defined = append(d.Defined, core.PoolDefinition{ID: id, RequiredServices: []string{string(id)}})
	}
	for _, t := range tenantPlans {
		if t.pool != "" {
			d.Overrides[t.id] = t.pool
		}
	}
	return d
}

func declare(number, slots, languages int, g *group) *core.Node {
	n := &core.Node{
		ID: core.NodeID(fmt.Sprintf("n%06d", number)), Epoch: 1, Revision: 1, Version: 1, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: slots,
			Region: regionPlans[g.region].name, Callback: "http://node", Capability: core.Capability{
				Semantic: languagePlans[languages].languages, AnyPair: true,
				Services: []core.Service{{ID: string(g.pool), Type: "nmt", Status: core.ServiceReady}},
			}},
	}
	n.Normalise()
	return n
}

func (n *node) occupancy() store.Occupancy {
	return store.Occupancy{Max: n.declared.MaxJobs, Running: n.reserved}
}

// join registers a node with the fleet view.
func (l *ledger) join(n *node) {
	l.fleet.Update(store.NodeStatus{Node: n.declared, Handle: n, Load: core.UnknownLoad, Occupancy: n.occupancy()})
	n.view = l.fleet.Node(n.declared.ID)
	n.group.alive++
	l.slots += n.declared.MaxJobs
	n.file()
}

// leave removes a node with everything that it had.
func (l *ledger) leave(n *node) {
	l.fleet.Remove(n.declared.ID)
	n.view = nil
	n.group.alive--
	l.slots -= n.declared.MaxJobs
	l.taken -= n.reserved
	n.reserved, n.running = 0, 0
	n.unfile()
}

// rejoin registers a node that had left, as a node does that was started again.
func (l *ledger) rejoin(n *node) {
	next := *n.declared
	next.Epoch++
	n.declared = &next
	l.join(n)
}

// reserve grants a slot of a node, if it has a free one.
func (l *ledger) reserve(n *node) bool {
	if n.view == nil || n.free() <= 0 {
		return false
	}
	n.reserved++
	l.taken++
	if n.free() == 0 {
		n.unfile()
	}
	return true
}

// release takes a slot back.
func (l *ledger) release(n *node) {
	n.reserved--
	l.taken--
	if n.free() == 1 {
		n.file()
	}
}

// file adds a node to those of its group that have a free slot.
func (n *node) file() {
	n.place = len(n.group.free)
	n.group.free = append(n.group.free, n)
}

func (n *node) unfile() {
	if n.place < 0 {
		return
	}
	last := len(n.group.free) - 1
	n.group.free[n.place] = n.group.free[last]
	n.group.free[n.place].place = n.place
	n.group.free = n.group.free[:last]
	n.place = -1
}

// heartbeatInterval is how often a node sends a heartbeat.
const heartbeatInterval = 5 * time.Second

// heartbeat records the heartbeats of the nodes whose turn it is in a round of many.
func (l *ledger) heartbeat(round, rounds int) {
	for i := round % rounds; i < len(l.nodes); i += rounds {
		if n := l.nodes[i]; n.view != nil {
			l.fleet.RecordHeartbeat(n.declared.ID, core.UnknownLoad, n.occupancy())
		}
	}
}
