package server

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/pools"
	"github.com/lingua-scheduler/lingua/wire"
)

// maxPoolTenants is how many tenants of a pool are listed.
const maxPoolTenants = 100

// viewPoolGap is why a node belongs to no capability pool; pinned means that its credential names one.
func viewPoolGap(a core.Assignment, pinned bool) wire.PoolGap {
	return wire.PoolGap{ClosestPool: string(a.Closest), MissingService: a.Missing, ByCredential: pinned}
}

// viewPools is the state of the capability pools as the API shows it.
func viewPools(o *pools.Overview) *wire.PoolOverview {
	out := &wire.PoolOverview{
		Enabled: o.Division.Enabled(), Generation: o.Generation, FileDiffers: o.FileDiffers, Problem: o.Problem,
		CountedMS:   o.At.UnixMilli(),
		Pools:       make([]wire.Pool, 0, len(o.Pools)),
		WithoutPool: wire.WithoutPool{Nodes: poolNodes(&o.Outside), Examples: []wire.NodeWithoutPool{}},
	}
	if out.Enabled {
		out.MatchScope, out.Strict = cmp.Or(string(o.Division.Scope), string(core.ScopeCore)), o.Division.Strict
		out.HashSeed, out.Affinity = int64(o.Division.Seed), o.Division.AffinitySeconds
	}
	bound := make(map[core.PoolID][]string)
	for _, tenant := range slices.Sorted(maps.Keys(o.Division.Overrides)) {
		id := o.Division.Overrides[tenant]
		bound[id] = append(bound[id], string(tenant))
	}
	defined := make(map[core.PoolID]*core.PoolDefinition, len(o.Division.Defined))
	for i := range o.Division.Defined {
		defined[o.Division.Defined[i].ID] = &o.Division.Defined[i]
	}
	for i := range o.Pools {
		out.Pools = append(out.Pools, viewPool(&o.Pools[i], defined[o.Pools[i].ID], bound[o.Pools[i].ID]))
	}
	for _, x := range o.Outsiders {
		out.WithoutPool.Examples = append(out.WithoutPool.Examples, wire.NodeWithoutPool{
			NodeID: string(x.Node), Online: x.Online, PoolGap: viewPoolGap(x.Assignment, x.Pinned),
		})
	}
	return out
}

// viewPool is a pool as the API shows it. One that a hash makes has no definition.
func viewPool(c *pools.Count, d *core.PoolDefinition, tenants []string) wire.Pool {
	p := wire.Pool{
		PoolID: string(c.ID), RequiredServices: []string{}, Nodes: poolNodes(c), Slots: wire.PoolSlots{Total: c.Slots, Used: c.Used},
		CoreServices: wire.PoolCoreServices{ASR: wire.StageCount(c.ASR), NMT: wire.StageCount(c.NMT), TTS: wire.StageCount(c.TTS)},
		Examples:     make([]wire.PoolNode, len(c.Examples)), TenantCount: len(tenants),
		Tenants: append([]string{}, tenants[:min(len(tenants), maxPoolTenants)]...),
	}
	if d != nil {
		p.Name, p.RequiredServices = d.Name, append(p.RequiredServices, d.RequiredServices...)
	}
	for i, x := range c.Examples {
		p.Examples[i] = wire.PoolNode{NodeID: string(x.Node), Ready: x.Reason == core.ReasonNone, Reason: string(x.Reason)}
	}
	return p
}

func poolNodes(c *pools.Count) wire.PoolNodes {
	return wire.PoolNodes{Total: c.Total, Online: c.Online, Ready: c.Ready}
}
