import { expect, test } from 'vitest';

import { verdictOf, verdictText } from './verdict';
import type { ClusterPoint, Stats } from './wire';

const direction = (src_lang: string, tgt_lang: string) => ({ src_lang, tgt_lang, ready: 1, slots: 4 });
const stats = (changes: object = {}): Stats =>
  ({
    nodes: { ready: 5, ejected: 0, disconnected: 0, offline: 0 },
    coverage: { directions: 2, none: [], one: [], more: [] },
    instances: { present: 3, draining: 0, absent: 0, dead_letters: 0 },
    ...changes,
  }) as unknown as Stats;

test('the verdict names what is wrong, and leads there', () => {
  const v = verdictOf(
    stats({
      nodes: { ready: 5, ejected: 2, disconnected: 0, offline: 1 },
      coverage: { directions: 9, none: [], one: [direction('it', 'pt'), direction('pt', 'it')], more: [] },
      instances: { present: 3, draining: 0, absent: 2, dead_letters: 3 },
    }),
    { waiting: 12 } as ClusterPoint,
    undefined,
  );
  expect(v?.state).toBe('degraded');
  expect(v && verdictText(v)).toBe(
    'Degraded: it→pt and 1 more have one node · 12 waiting · 2 nodes ejected · 1 node offline · 2 instances gone · 3 dead letters',
  );
  expect(v?.parts.map((p) => p.link)).toEqual([
    '#/languages?coverage=one',
    '#/waiting',
    '#/nodes?state=ejected',
    '#/nodes?state=offline',
    '#/instances',
    '#/instances?part=dead-letters',
  ]);
});

test('a fleet without trouble is fine, one without nodes or store is down', () => {
  expect(verdictOf(stats(), { waiting: 0 } as ClusterPoint, undefined)).toEqual({ state: 'fine', parts: [] });
  expect(verdictOf(undefined, undefined, undefined)).toBeUndefined();
  expect(verdictOf(stats(), undefined, 'store')?.state).toBe('down');
  const nodes = { ready: 0, ejected: 0, disconnected: 0, offline: 0 };
  expect(verdictOf(stats({ nodes }), undefined, undefined)).toEqual({
    state: 'down',
    parts: [{ text: 'no node is ready', link: '#/nodes' }],
  });
});
