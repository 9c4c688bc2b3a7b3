import type { WaitingTenant } from './wire';

/** TenantPart is what a tenant got of the slots of its pool for which several tenants waited, and what its part was: parts of 1. */
export interface TenantPart {
  row: WaitingTenant;
  granted: number;
  entitled: number;
}

/** tenantParts returns the parts of tenants. They are 0 where no slot was shared. */
export function tenantParts(rows: readonly WaitingTenant[]): TenantPart[] {
  const granted = new Map<string, number>();
  const entitled = new Map<string, number>();
  for (const { pool_id: pool, share } of rows) {
    granted.set(pool, (granted.get(pool) ?? 0) + (share?.granted ?? 0));
    entitled.set(pool, (entitled.get(pool) ?? 0) + (share?.entitled ?? 0));
  }
  const part = (value: number | undefined, sum: number | undefined): number => (sum ? (value ?? 0) / sum : 0);
  return rows.map((row) => ({
    row,
    granted: part(row.share?.granted, granted.get(row.pool_id)),
    entitled: part(row.share?.entitled, entitled.get(row.pool_id)),
  }));
}
