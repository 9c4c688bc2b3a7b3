import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { takenAt } from './taken';

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 });
});
afterEach(() => {
  vi.useRealTimers();
});

test('an answer of now has the time of now', () => {
  for (const answer of [{ jobs: [] }, undefined, null, 'text', { generated_ms: 5 }, { generated_ms: 5, checked_ms: 0 }])
    expect(takenAt(answer)).toBe(1_000_000);
});

test('an answer that was computed earlier is as old as it says', () => {
  expect(takenAt({ age_ms: 4000, generated_ms: 1 })).toBe(996_000);
  expect(takenAt({ generated_ms: 90_000, checked_ms: 87_000 })).toBe(997_000);
  expect(takenAt({ generated_ms: 1000, checked_ms: 2000 })).toBe(1_000_000);
});
