import { expect, test } from 'vitest';

import { backoff } from './backoff';

test('the delay doubles to its limit, and half of it is random', () => {
  expect([0, 1, 2, 3, 4, 5, 1000].map((n) => backoff(n, () => 1))).toEqual([
    1000, 2000, 4000, 8000, 15_000, 15_000, 15_000,
  ]);
  expect(backoff(0, () => 0)).toBe(500);
  expect(backoff(4, () => 0.5)).toBe(11_250);
});
