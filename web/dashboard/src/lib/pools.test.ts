import { expect, test } from 'vitest';

import { boundTenants, poolsWithoutNodes, poolTone, unlistedTenants } from './pools';
import type { Pool, PoolOverview } from './wire';

const stage = { installed: 0, ready: 0 };
const pool = (id: string, change: Partial<Pool> = {}): Pool => ({
  pool_id: id,
  required_services: [],
  nodes: { total: 1, online: 1, ready: 1 },
  slots: { total: 4, used: 1 },
  core_services: { asr: stage, nmt: stage, tts: stage },
  examples: [],
  tenants: [],
  tenant_count: 0,
  ...change,
});
const overview = (pools: Pool[]): PoolOverview => ({
  enabled: true,
  generation: 1,
  strict_pool_eligibility: false,
  hash_seed: 0,
  session_affinity_seconds: 0,
  file_differs: false,
  counted_ms: 0,
  pools,
  without_pool: { nodes: { total: 0, online: 0, ready: 0 }, examples: [] },
});

test('tenants of all pools, ordered by name', () => {
  const all = overview([
    pool('a', { tenants: ['zeta', 'acme'], tenant_count: 150 }),
    pool('b', { tenants: ['beta'], tenant_count: 1 }),
  ]);
  expect(boundTenants(all).map((b) => [b.tenant, b.pool.pool_id])).toEqual([
    ['acme', 'a'],
    ['beta', 'b'],
    ['zeta', 'a'],
  ]);
  expect(unlistedTenants(all)).toBe(148);
});

test('a pool without ready nodes is worse if tenants are bound to it', () => {
  const none = { total: 1, online: 0, ready: 0 };
  expect(poolTone(pool('a'))).toBe('ok');
  expect(poolTone(pool('a', { nodes: none }))).toBe('warn');
  expect(poolTone(pool('a', { nodes: none, tenant_count: 1 }))).toBe('bad');
});

test('pools whose tenants have no ready node', () => {
  const none = { total: 1, online: 1, ready: 0 };
  const all = overview([
    pool('a', { nodes: none }),
    pool('b', { nodes: none, tenant_count: 1 }),
    pool('c', { tenant_count: 1 }),
  ]);
  expect(poolsWithoutNodes(all).map((p) => p.pool_id)).toEqual(['b']);
  expect(poolsWithoutNodes(undefined)).toEqual([]);
});
