import { expect, test } from 'vitest';

import { refusalLink } from './refusals';

test('a refusal leads to the page that explains it', () => {
  expect(refusalLink('NO_CAPABLE_NODE')).toMatch(/^#\/languages\?.*coverage=problem/);
  expect(refusalLink('SCHEDULER_DEPENDENCY_DOWN')).toBe('#/instances');
  expect(refusalLink('RATE_LIMITED')).toBeUndefined();
});
