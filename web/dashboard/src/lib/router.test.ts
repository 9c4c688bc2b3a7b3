import { expect, test } from 'vitest';

import { href, parse } from './router.svelte';

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
