import { expect, test } from 'vitest';

import { interrupted, merge, perMinute, perSecond, rangeOf, total, values, within } from './series';

const at = (...times: number[]): { at_ms: number }[] => times.map((at_ms) => ({ at_ms }));

test('a series grows in order, without repetitions, and forgets what is old', () => {
  expect(merge(at(10, 20), at(40, 20, 30), 1000)).toEqual(at(10, 20, 30, 40));
  expect(merge(at(10, 20), at(5), 1000)).toEqual(at(10, 20));
  expect(merge(at(10, 20), at(30), 15)).toEqual(at(20, 30));
  expect(merge([], [], 15)).toEqual([]);
});

test('a range ends at the newest point', () => {
  expect(within(at(10, 20, 30), 15)).toEqual(at(20, 30));
  expect(within([], 15)).toEqual([]);
});

test('a line is interrupted where points are missing', () => {
  const p = interrupted(at(10, 20, 60), 10);
  expect(p.times).toEqual([10, 20, 30, 60]);
  expect(values(p, (x) => x.at_ms)).toEqual([10, 20, null, 60]);
  expect(values(p, () => undefined)).toEqual([null, null, null, null]);
});

test('rates and sums', () => {
  expect(perSecond(10, 5000)).toBe(2);
  expect(perSecond(10, 0)).toBe(0);
  expect(total([{ A: 1, B: 2 }, undefined, { A: 3, C: 2 }])).toEqual([
    ['A', 4],
    ['B', 2],
    ['C', 2],
  ]);
});

test('a rate is that of the minute before', () => {
  const points = [10, 40, 80].map((s) => ({ at_ms: s * 1000, span_ms: 30_000, n: s }));
  expect(perMinute(points, (p) => p.n)).toEqual([20, 50, 120]);
  expect(perMinute([], () => 1)).toEqual([]);
});

test('the range of a URL is one that is offered', () => {
  expect(rangeOf('60')).toBe(60);
  expect(rangeOf('7')).toBe(15);
  expect(rangeOf(null)).toBe(15);
});
