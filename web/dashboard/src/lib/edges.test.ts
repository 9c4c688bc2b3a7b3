import { expect, test } from 'vitest';

import { hidden } from './edges';

test('there is more on the side that is scrolled out of view', () => {
  expect(hidden(0, 300, 300)).toEqual({ before: false, after: false });
  expect(hidden(0, 300, 300.6)).toEqual({ before: false, after: false });
  expect(hidden(0, 300, 500)).toEqual({ before: false, after: true });
  expect(hidden(100, 300, 500)).toEqual({ before: true, after: true });
  expect(hidden(200, 300, 500)).toEqual({ before: true, after: false });
});
