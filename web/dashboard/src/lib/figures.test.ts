import { expect, test } from 'vitest';

import { millis, rate } from './figures';

test('small figures have a decimal', () => {
  expect([0, 5, 0.26, 9.96, 12.7].map(rate)).toEqual(['0', '5', '0.3', '10.0', '13']);
  expect([0, 0.13, 7, 350.4, 2000].map(millis)).toEqual(['0 ms', '0.1 ms', '7 ms', '350 ms', '2.0 s']);
});
