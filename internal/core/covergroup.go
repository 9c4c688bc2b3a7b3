package core

import "cmp"

// CoverGroup is a set of nodes on which jobs depend: those of a pool, or of every pool, that serve a tenant. While none of them is ready,
// jobs are refused that no other node may take, or the pool has nobody for its jobs. It is the one notion of what has to be covered: what
// ejects or drains nodes, warns, or counts asks it, for each direction that is in demand.
type CoverGroup struct {
	Pool   PoolID   // empty: the nodes of every pool on which jobs of tenants may run that are not bound to one
	Tenant TenantID // empty: the nodes that serve every tenant; otherwise those and its own
}

// CoverGroupsOf returns the groups of which a node of a pool is an own member: those that depend on it. A node of one tenant is not one of
// the groups of others, and those of the tenant count the nodes that serve every tenant as well. A node that no job may use is in no group.
func (p *Pools) CoverGroupsOf(tenant TenantID, pool PoolID) (groups [2]CoverGroup, count int) {
	var boundTo PoolID
	bound := false
	if p.Enabled() {
		boundTo, bound = p.Overrides[tenant]
	}
	if all := (CoverGroup{Tenant: tenant}); !bound && p.HasPool(all, pool) {
		groups[count] = all
		count++
	}
	if pool != "" && (!bound || boundTo == pool) {
		groups[count] = CoverGroup{Pool: pool, Tenant: tenant}
		count++
	}
	return groups, count
}

// HasPool reports whether a group has the nodes of a pool, empty: of those that belong to none.
func (p *Pools) HasPool(g CoverGroup, pool PoolID) bool {
	if g.Pool != "" {
		return g.Pool == pool
	}
	return pool != "" || !p.Enabled() || !p.Strict
}

// CompareCoverGroups orders groups by their pools and tenants.
func CompareCoverGroups(a, b CoverGroup) int {
	return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Tenant, b.Tenant))
}

// String is what follows a direction in a text for people; empty: the group is all nodes that serve every tenant.
func (g CoverGroup) String() string {
	text := ""
	if g.Pool != "" {
		text += " in pool " + string(g.Pool)
	}
	if g.Tenant != "" {
		text += " for tenant " + string(g.Tenant)
	}
	return text
}
