import { expect, test } from 'vitest';

import { clock, duration, number, share } from './format';

test('durations have at most two units', () => {
  for (const [ms, want] of [
    [0, '0 ms'],
    [999, '999 ms'],
    [1049, '1.0 s'],
    [9999, '9.9 s'],
    [10_000, '10 s'],
    [61_000, '1 min 1 s'],
    [3_600_000, '1 h'],
    [3_900_000, '1 h 5 min'],
    [90_061_000, '1 d 1 h'],
    [-61_000, '1 min 1 s'],
  ] as const) {
    expect(duration(ms)).toBe(want);
  }
});

test('numbers and shares', () => {
  expect(number(12345.6)).toBe('12,346');
  expect(share(0.0123)).toBe('1.2 %');
  expect(share(0.5)).toBe('50 %');
  expect(share(0)).toBe('0 %');
  expect(share(Number.NaN)).toBe('–');
});

test('a time has a date unless it is of today', () => {
  const now = Date.UTC(2026, 10, 17, 12, 0, 0);
  expect(clock(Date.UTC(2026, 10, 17, 9, 5, 7), 'utc', now)).toBe('09:05:07Z');
  expect(clock(Date.UTC(2026, 10, 16, 23, 59, 59), 'utc', now)).toBe('11-16 23:59:59Z');
});
