import { expect, test } from 'vitest';

import { pressure, rateOf, refusedBy, sortTenants } from './tenants';
import type { TenantInfo } from './wire';

const tenant = (id: string, more: Partial<TenantInfo> = {}): TenantInfo => ({
  tenant_id: id,
  configured: true,
  weight: 1,
  in_flight: { used: 0 },
  sessions: { used: 0 },
  refusals: {},
  ...more,
});

test('the closest limit decides how close a tenant is', () => {
  expect(pressure(tenant('a'))).toBe(-1);
  expect(pressure(tenant('a', { in_flight: { used: 5, max: 10 }, sessions: { used: 3 } }))).toBe(0.5);
  expect(pressure(tenant('a', { in_flight: { used: 5, max: 10 }, dispatches: { limit: 10, left: 1 } }))).toBe(0.9);
  expect(pressure(tenant('a', { audio_seconds: { limit: 60, left: -30 } }))).toBe(1.5);
  expect(rateOf({ limit: 10, left: 12 })).toBe(0);
});

test('those that are closest to a limit are first', () => {
  const rows = [
    tenant('none'),
    tenant('busy', { in_flight: { used: 9 } }),
    tenant('near', { in_flight: { used: 9, max: 10 } }),
    tenant('far', { in_flight: { used: 1, max: 10 } }),
  ];
  expect(sortTenants(rows).map((r) => r.tenant_id)).toEqual(['near', 'far', 'busy', 'none']);
});

test('limits that refused nothing are left out', () => {
  expect(refusedBy(tenant('a', { refusals: { max_sessions: 1, max_in_flight: 3, dispatch_per_second: 0 } }))).toEqual([
    ['max_in_flight', 3],
    ['max_sessions', 1],
  ]);
});
