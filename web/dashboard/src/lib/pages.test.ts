import { expect, test } from 'vitest';

import { configurationParts, pageOf, pages, visiblePages } from './pages';

test('a caller of one tenant has no pages of the whole fleet', () => {
  expect(visiblePages(true)).toEqual(pages);
  expect(visiblePages(false)).not.toContain('instances');
  expect(visiblePages(false)).not.toContain('pools');
  for (const page of ['jobs', 'waiting', 'tenants']) expect(visiblePages(false)).toContain(page);
});

test('the parts of the configuration are those that are not refused', () => {
  expect(configurationParts(true, true)).toEqual(['', 'keys', 'revocations', 'audit']);
  expect(configurationParts(false, true)).toEqual(['revocations', 'audit']);
  expect(configurationParts(false, false)).toEqual(['audit']);
});

test('a path names a page, or none', () => {
  expect(pageOf([])).toBe('overview');
  expect(pageOf(['nodes', 'gpu-1'])).toBe('nodes');
  expect(pageOf(['search'])).toBe('search');
  expect(pageOf(['blah'])).toBeUndefined();
  expect(pageOf(['toString'])).toBeUndefined();
});
