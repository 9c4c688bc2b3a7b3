package fleet

import (
	"sync/atomic"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
)

// division is the fleet as it is divided into capability pools. Without definitions there is one pool, with all nodes. Another definition
// makes another division; the pools themselves change with their nodes.
type division struct {
	definition *core.Pools            // nil: none
	pools      []*Pool                // the first has the nodes that belong to no capability pool
	numbers    map[core.PoolID]uint16 // positions in pools
	tenants    tenants                // the nodes that belong to single tenants

	entries atomic.Pointer[map[indexKey]*entry]
	limits  groups[usage] // of the entries
	buildMu run.Mutex     // held while the indexes of a direction are built; taken before the lock of the fleet
	// fullUntil is the Instant until which no entry with a restriction is added, because those in use take all the room.
	fullUntil atomic.Int64
	closed    bool         // another one has replaced it; guarded by the lock of the fleet
	onScan    func()       // called for each chunk that was evaluated for a new index; for tests
	onCheck   func(*entry) // called for each entry that an event of a node is checked for; for tests
}

func newDivision(definition *core.Pools) *division {
	d := &division{limits: defaultLimits, buildMu: run.NewMutex("fleet_building"), numbers: make(map[core.PoolID]uint16)}
	d.entries.Store(&map[indexKey]*entry{})
	d.tenants.init()
	d.pools = append(d.pools, newPool("", d))
	if definition.Enabled() {
		d.definition = definition.Prepared()
		for _, id := range definition.IDs() {
			d.numbers[id] = uint16(len(d.pools))
			d.pools = append(d.pools, newPool(id, d))
		}
	}
	return d
}

// numberOf returns the number of the pool of a node; 0 if it belongs to none.
func (d *division) numberOf(declared *core.Node) uint16 {
	if d.definition == nil {
		return 0
	}
	return d.numbers[d.definition.Assign(declared).Pool]
}

// place is where a node is in a division, and by which declaration.
type place struct {
	pool     uint16
	slot     uint32
	declared *core.Node
}

// add adds a node.
func (d *division) add(n *Node) place {
	declared := n.Declared()
	number := d.numberOf(declared)
	return place{number, d.pools[number].add(n, declared), declared}
}

// remove removes a node from its place.
func (d *division) remove(p place) { d.pools[p.pool].remove(p.slot, p.declared) }

// redeclare replaces the declaration of a node in view, which may move it to another pool.
func (d *division) redeclare(n *Node, declared *core.Node) {
	old := n.Declared()
	if old.Revision == declared.Revision && old.Epoch == declared.Epoch {
		n.setDeclared(declared)
		d.pools[n.pool].ready.set(n.slot, n.Summary().Grantable())
		return
	}
	number := d.numberOf(declared)
	if number == n.pool {
		d.pools[number].redeclare(n, declared)
		return
	}
	d.remove(n.place()) // before the declaration is replaced: see Index.member
	n.setDeclared(declared)
	n.pool, n.slot = number, d.pools[number].add(n, declared)
}

// place returns where the node is in the current division. Only writers call it.
func (n *Node) place() place { return place{n.pool, n.slot, n.Declared()} }

// SetPools divides the fleet by another definition; nil: it is not divided. Writers do not wait while the nodes are assigned: those that
// change meanwhile are assigned once more. The indexes of the division before are empty then, and selections that have begun begin again.
func (f *Fleet) SetPools(definition *core.Pools) {
	f.divideMu.Lock()
	defer f.divideMu.Unlock()
	next, places := newDivision(definition), make(map[*Node]place)
	f.mu.Lock()
	f.changed = make(map[*Node]bool)
	f.mu.Unlock()
	for n := range f.All() {
		places[n] = next.add(n)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.changed {
		if p, added := places[n]; added {
			next.remove(p)
			delete(places, n)
		}
		if f.Node(n.id) == n {
			places[n] = next.add(n)
		}
	}
	f.changed = nil
	for n, p := range places {
		n.pool, n.slot = p.pool, p.slot
	}
	f.division.Swap(next).close()
}

// Division returns how the fleet is divided into pools; nil if it is not.
func (f *Fleet) Division() *core.Pools { return f.division.Load().definition }

// noteChange records that a node has changed, for a division that is being made.
func (f *Fleet) noteChange(n *Node) {
	if f.changed != nil {
		f.changed[n] = true
	}
}
