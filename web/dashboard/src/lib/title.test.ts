import { expect, test } from 'vitest';

import { parse } from './router.svelte';
import { titleOf } from './title';

test('the title names what is shown', () => {
  for (const [hash, title] of [
    ['', 'Overview · Lingua'],
    ['#/nodes', 'Nodes · Lingua'],
    ['#/nodes/geneva?range=5', 'geneva · Nodes · Lingua'],
    ['#/configuration', 'Configuration · Lingua'],
    ['#/configuration/audit', 'Audit log · Configuration · Lingua'],
    ['#/configuration/blah', 'Configuration · Lingua'],
    ['#/search?q=gen', 'gen · Search · Lingua'],
    ['#/blah', 'Unknown page · Lingua'],
  ] as const)
    expect(titleOf(parse(hash)), hash).toBe(title);
});
