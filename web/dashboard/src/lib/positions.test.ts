import { expect, test } from 'vitest';

import { savedPosition, savePosition } from './positions';

test('the positions of the last tables are kept', () => {
  savePosition('first', 320);
  expect(savedPosition('first')).toBe(320);
  savePosition('first', 0);
  expect(savedPosition('first')).toBe(0);
  savePosition('first', 64);
  for (let n = 0; n < 200; n++) savePosition('other ' + n, 32);
  expect(savedPosition('first')).toBe(0);
  expect(savedPosition('other 0')).toBe(32);
  expect(savedPosition('other 199')).toBe(32);
});
