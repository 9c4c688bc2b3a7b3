import { expect, test } from 'vitest';

import { drainProgress, pairsBySource, stateOf } from './nodes';
import type { Node, NodePoint } from './wire';

const node = (change: Partial<Node>): Node => ({
  node_id: 'n',
  epoch: 1,
  online: true,
  health: 'ready',
  drained: false,
  max_concurrent_jobs: 4,
  reserved: 0,
  running: 0,
  foreign: 0,
  effective_load: 0,
  last_heartbeat_ms: 0,
  semantic_langs: [],
  ...change,
});
const point = (at_ms: number, state: NodePoint['state'], used_slots?: number): NodePoint => ({
  at_ms,
  state,
  slots: 4,
  done: 0,
  failed: 0,
  ...(used_slots === undefined ? {} : { used_slots }),
});

test('the state of a node', () => {
  expect(stateOf(node({}))).toBe('ready');
  expect(stateOf(node({ health: 'degraded' }))).toBe('degraded');
  expect(stateOf(node({ health: 'draining', drained: true }))).toBe('draining');
  expect(stateOf(node({ online: false }))).toBe('offline');
  expect(stateOf(node({ disconnected: true }))).toBe('disconnected');
  expect(stateOf(node({ admission: { slots: 0, reason: 'failing', times: 1 } }))).toBe('ejected');
  expect(stateOf(node({ admission: { slots: 1, reason: 'failing', times: 1 } }))).toBe('ready');
});

test('a drain began after the last point of another state: what was used then was to be drained', () => {
  const points = [point(10, 'ready', 4), point(15, 'ready', 3), point(20, 'draining', 2), point(25, 'draining')];
  expect(drainProgress(points, 1)).toEqual({ before: 3, left: 1 });
});

test('a drain without a series begins with what is left', () => {
  expect(drainProgress([], 2)).toEqual({ before: 2, left: 2 });
  expect(drainProgress([point(10, 'draining', 5)], 0)).toEqual({ before: 5, left: 0 });
});

test('pairs are grouped by source', () => {
  expect(pairsBySource([['zh', 'en'], ['en', 'zh'], ['en', 'de'], ['en']])).toEqual([
    ['en', ['de', 'zh']],
    ['zh', ['en']],
  ]);
  expect(pairsBySource(undefined)).toEqual([]);
});
