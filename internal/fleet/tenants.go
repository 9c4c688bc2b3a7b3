package fleet

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// tenants has the nodes of a division that belong to one tenant, by tenant. It is read without a lock. Writers must not be concurrent.
type tenants struct {
	count atomic.Int32 // of the tenants that have nodes
	pools shardedMap[core.TenantID, *[]tenantPool]
}

// tenantPool has the nodes of a tenant in one pool.
type tenantPool struct {
	number int // of the pool
	slots  *column
}

func (t *tenants) init() { t.pools.init(maphash.MakeSeed()) }

// of returns the pools in which a tenant has nodes of its own, ordered by their numbers.
func (t *tenants) of(tenant core.TenantID) []tenantPool {
	if tenant == "" || t.count.Load() == 0 {
		return nil
	}
	if pools := t.pools.get(tenant); pools != nil {
		return *pools
	}
	return nil
}

// in returns the nodes of a tenant in one pool; nil if it has none.
func (t *tenants) in(tenant core.TenantID, number int) *column {
	pools := t.of(tenant)
	if i, found := findPool(pools, number); found {
		return pools[i].slots
	}
	return nil
}

func findPool(pools []tenantPool, number int) (position int, found bool) {
	return slices.BinarySearchFunc(pools, number, func(p tenantPool, number int) int { return cmp.Compare(p.number, number) })
}

// set adds a node to those of a tenant, or removes it.
func (t *tenants) set(tenant core.TenantID, number int, slot uint32, on bool) {
	pools := t.of(tenant)
	i, found := findPool(pools, number)
	switch {
	case found && !pools[i].slots.set(slot, on):
		return
	case found: // the column is empty
		pools = slices.Delete(slices.Clone(pools), i, i+1)
	case on:
		column := newColumn()
		column.set(slot, true)
		pools = slices.Insert(slices.Clone(pools), i, tenantPool{number, column})
	default:
		return
	}
	switch len(pools) {
	case 0:
		t.pools.remove(tenant)
		t.count.Add(-1)
		return
	case 1:
		if on {
			t.count.Add(1)
		}
	}
	t.pools.put(tenant, &pools)
}

// serving are the members of an index that serve one tenant, in a pool with nodes that belong to single tenants: the nodes that serve all
// tenants, and those of this one.
type serving struct {
	dedicated *bitmap // the nodes that belong to single tenants
	own       *column // those of the tenant; nil: none
	counts    []int32 // of each chunk, as they were counted a moment ago
}

// chunk returns the members of a chunk.
func (s *serving) chunk(members *bitmap, i int) (w words) {
	c := members.load().chunk(i)
	if c == nil {
		return w
	}
	var dedicated, own words
	s.dedicated.or(&dedicated, i)
	s.own.or(&own, i)
	for k := range w {
		w[k] = c[k].Load() & (own[k] | ^dedicated[k])
	}
	return w
}

// slotOf returns the slot of the i-th member; NoSlot if there are fewer.
func (s *serving) slotOf(members *bitmap, i int) uint32 {
	for k, n := range s.counts {
		if i >= int(n) {
			i -= int(n)
			continue
		}
		w := s.chunk(members, k)
		if position, ok := w.at(i); ok { // none if nodes have left meanwhile
			return uint32(k*chunkSlots + position)
		}
		break
	}
	return NoSlot
}

// stopFor returns the members of an index of the pool that serve a tenant, which has these nodes of its own in the pool; nil: none. Without
// an index there are no members.
func (p *Pool) stopFor(x *Index, own *column) Stop {
	if x == nil {
		return Stop{}
	}
	s := Stop{View: x.View(), Pool: p.ID}
	if p.dedicated.len() == 0 {
		s.Ready = x.members.common(&p.ready)
		return s
	}
	s.Len, s.serving = 0, &serving{dedicated: &p.dedicated, own: own}
	for i := range x.members.load().chunks {
		w := s.serving.chunk(&x.members, i)
		n := int32(w.len())
		s.serving.counts = append(s.serving.counts, n)
		s.Len += n
		var ready words
		p.ready.or(&ready, i)
		w.and(ready)
		s.Ready += w.len()
	}
	return s
}

// setTenant records that the node of a slot belongs to a tenant, or no longer does. An empty tenant means that it serves all.
func (p *Pool) setTenant(slot uint32, tenant core.TenantID, on bool) {
	if tenant == "" {
		return
	}
	p.dedicated.set(slot, on)
	p.division.tenants.set(tenant, p.number, slot, on)
}
