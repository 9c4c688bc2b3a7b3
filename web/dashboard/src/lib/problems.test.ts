import { expect, test } from 'vitest';

import { Problems } from './problems.svelte';

test('the first part of a page that has a message says it', () => {
  const problems = new Problems();
  const [page, store, events] = [problems.place(), problems.place(), problems.place()];
  problems.report(store, 'down');
  problems.report(events, 'down');
  expect(problems.repeats(store, 'down')).toBe(false);
  expect(problems.repeats(events, 'down')).toBe(true);
  expect(problems.repeats(events, 'other')).toBe(false);
  problems.report(page, 'down');
  expect(problems.repeats(page, 'down')).toBe(false);
  expect(problems.repeats(store, 'down')).toBe(true);
  problems.report(page, '');
  problems.report(store, '');
  expect(problems.repeats(events, 'down')).toBe(false);
});
