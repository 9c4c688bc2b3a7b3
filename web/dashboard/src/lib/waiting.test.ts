import { expect, test } from 'vitest';

import { tenantParts } from './waiting';
import type { WaitingTenant } from './wire';

const row = (pool: string, tenant: string, granted?: number, entitled = 0): WaitingTenant => ({
  pool_id: pool,
  tenant_id: tenant,
  waiting: 1,
  oldest_ms: 1,
  weight: 1,
  ...(granted === undefined ? {} : { share: { granted, entitled, window_ms: 60_000 } }),
});

test('the parts of tenants are those of their pool', () => {
  const parts = tenantParts([row('', 'a', 30, 20), row('', 'b', 10, 20), row('large', 'a', 0, 0), row('small', 'c')]);
  expect(parts.map((p) => [p.granted, p.entitled])).toEqual([
    [0.75, 0.5],
    [0.25, 0.5],
    [0, 0],
    [0, 0],
  ]);
});
