import { expect, test } from 'vitest';

import { rate } from './figures';
import { duration, millis, number } from './format';
import { increments } from './ticks';

test('labels of neighbouring ticks differ', () => {
  for (const format of [(n: number) => number(n), rate, millis, duration]) {
    for (const step of increments(format)) {
      const labels = [0, 1, 2, 3].map((n) => format(n * step));
      expect(new Set(labels).size, labels.join()).toBe(4);
    }
  }
});

test('counts have whole steps, and short durations fractions', () => {
  expect(increments((n) => number(n))[0]).toBe(1);
  expect(increments(duration)[0]).toBe(1);
  expect(increments(millis)[0]).toBe(0.1);
  expect(increments(rate)[0]).toBe(0.1);
});
