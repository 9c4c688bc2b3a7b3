import { afterEach, expect, test } from 'vitest';

import { href, parse, router } from './router.svelte';

afterEach(() => {
  go('');
});

test('a location is what href made of it', () => {
  for (const parts of [[], ['nodes'], ['nodes', 'gpu/1?x=#ü']]) {
    const l = parse(href(parts, { state: 'ready', q: 'a b&c', none: '' }));
    expect(l.parts).toEqual(parts);
    expect(Object.fromEntries(l.query)).toEqual({ state: 'ready', q: 'a b&c' });
  }
});

test('a fragment that cannot be decoded does no harm', () => {
  expect(parse('#/nodes/%E0%A4%A').parts).toEqual(['nodes', '%E0%A4%A']);
  expect(parse('').parts).toEqual([]);
});

function go(hash: string): void {
  window.location.hash = hash;
  window.dispatchEvent(new HashChangeEvent('hashchange'));
}

test('a visit is one entry of the history, whatever its filters are', () => {
  go('#/nodes');
  const { visit } = router;
  router.change({ state: 'ready' });
  expect([router.visit, window.location.hash]).toEqual([visit, '#/nodes?state=ready']);
});

test('the list of a page is as it was seen last', () => {
  expect(router.list('jobs')).toBe('#/jobs');
  go('#/jobs?state=open');
  router.change({ node_id: 'oslo' });
  go('#/jobs/job-1?range=5');
  expect(router.list('jobs')).toBe('#/jobs?state=open&node_id=oslo');
});

test('filters are changed only on the page for which they are meant', () => {
  go('#/nodes');
  const change = router.changer();
  change({ search: 'a' });
  expect(window.location.hash).toBe('#/nodes?search=a');
  go('#/sessions');
  change({ search: 'b' });
  expect(window.location.hash).toBe('#/sessions');
});
