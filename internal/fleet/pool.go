package fleet

import (
	"iter"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
)

// writersMutex is the lock of the writers of a fleet.
type writersMutex = run.Mutex

// Pool is a set of nodes with the indexes of the directions that were required of it. Reads take no lock; writers hold the lock of the
// fleet.
type Pool struct {
	ID core.PoolID // of the capability pool; empty: its nodes belong to none

	division *division // that the pool is a part of
	number   int       // in the division

	table     table
	ready     bitmap          // the nodes that may get jobs if they have a free slot
	dedicated bitmap          // the nodes that belong to one tenant
	columns   columns         // writers only
	changed   map[uint32]bool // slots that changed while an index is built; nil: none is built. Writers only
}

func newPool(id core.PoolID, d *division) *Pool {
	return &Pool{ID: id, division: d, number: len(d.pools), columns: newColumns()}
}

// add adds a node with a declaration and returns its slot.
func (p *Pool) add(n *Node, declared *core.Node) (slot uint32) {
	slot = p.table.add(n)
	p.noteChange(slot)
	p.columns.declare(slot, declared, true)
	p.setTenant(slot, declared.Tenant, true) // before it is in an index: others would choose it in vain
	for e := range p.entries() {
		if e.serves(declared) {
			e.set(p, slot, true)
		}
	}
	p.ready.set(slot, n.Summary().Grantable())
	return slot
}

// remove removes the node of a slot, which was added with a declaration.
func (p *Pool) remove(slot uint32, declared *core.Node) {
	p.noteChange(slot)
	for x := range p.Indexes() {
		x.members.set(slot, false)
	}
	p.columns.declare(slot, declared, false)
	p.setTenant(slot, declared.Tenant, false)
	p.ready.set(slot, false)
	p.table.remove(slot)
}

// redeclare replaces the declaration of a node. It leaves indexes before the declaration is replaced, and enters others after that: see
// Index.member.
func (p *Pool) redeclare(n *Node, declared *core.Node) {
	p.noteChange(n.slot)
	var entered []*entry
	for e := range p.entries() {
		if e.serves(declared) {
			entered = append(entered, e)
		} else {
			e.set(p, n.slot, false)
		}
	}
	old := n.Declared()
	p.columns.declare(n.slot, old, false)
	n.setDeclared(declared)
	p.columns.declare(n.slot, declared, true)
	if old.Tenant != declared.Tenant {
		p.setTenant(n.slot, old.Tenant, false)
		p.setTenant(n.slot, declared.Tenant, true)
	}
	for _, e := range entered {
		e.set(p, n.slot, true)
	}
	p.ready.set(n.slot, n.Summary().Grantable())
}

// noteChange records that a node has changed, for an index that is being built.
func (p *Pool) noteChange(slot uint32) {
	if p.changed != nil {
		p.changed[slot] = true
	}
}

// Indexes iterates over the indexes.
func (p *Pool) Indexes() iter.Seq[*Index] {
	return func(yield func(*Index) bool) {
		for _, e := range *p.division.entries.Load() {
			if x := e.indexes[p.number].Load(); x != nil && !yield(x) {
				return
			}
		}
	}
}

// entries iterates over the entries for which an event of a node is checked.
func (p *Pool) entries() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, e := range *p.division.entries.Load() {
			if p.division.onCheck != nil {
				p.division.onCheck(e)
			}
			if !yield(e) {
				return
			}
		}
	}
}

// applyChanges applies the changes since the columns were read to an entry that was built from them.
func (p *Pool) applyChanges(e *entry) {
	for slot := range p.changed {
		n := p.table.at(slot)
		e.set(p, slot, n != nil && e.serves(n.Declared()))
	}
	p.changed = nil
}
