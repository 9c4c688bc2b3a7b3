import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { Progress } from './progress.svelte';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test('a part is shown when those above it are read, or took too long', () => {
  const read = [false, false];
  const progress = new Progress();
  const stop = progress.start();
  const [first, second, third] = [
    progress.add(() => read[0] === true),
    progress.add(() => read[1] === true),
    progress.add(() => true),
  ];
  const shown = (): boolean[] => [first(), second(), third()];
  expect(shown()).toEqual([true, false, false]);
  read[1] = true;
  expect(shown()).toEqual([true, false, false]);
  read[0] = true;
  expect(shown()).toEqual([true, true, true]);
  read[0] = false;
  vi.advanceTimersByTime(2000);
  expect(shown()).toEqual([true, true, true]);
  stop();
});
