import type { Pool, PoolOverview } from './wire';

/** Bound is a tenant whose jobs run in one pool only. */
export interface Bound {
  tenant: string;
  pool: Pool;
}

/** boundTenants returns the tenants that are bound to a pool, ordered by name, as far as the API lists them. */
export function boundTenants(overview: PoolOverview): Bound[] {
  return overview.pools
    .flatMap((pool) => pool.tenants.map((tenant) => ({ tenant, pool })))
    .sort((a, b) => a.tenant.localeCompare(b.tenant));
}

/** unlistedTenants returns how many bound tenants the API does not list. */
export function unlistedTenants(overview: PoolOverview): number {
  return overview.pools.reduce((n, pool) => n + pool.tenant_count - pool.tenants.length, 0);
}

/** poolsWithoutNodes returns the pools to which tenants are bound and that have no ready node: every job of these tenants is refused. */
export function poolsWithoutNodes(overview: PoolOverview | undefined): Pool[] {
  return (overview?.pools ?? []).filter((p) => poolTone(p) === 'bad');
}

/** poolTone returns how a pool is: bad if tenants depend on it and none of its nodes is ready. */
export function poolTone(pool: Pool): 'bad' | 'warn' | 'ok' {
  if (pool.nodes.ready > 0) return 'ok';
  return pool.tenant_count > 0 ? 'bad' : 'warn';
}
