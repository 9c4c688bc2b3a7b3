import { expect, test } from 'vitest';

import { differing, instanceState, serversOld, sum } from './instances';
import type { Instance, StoreStatus } from './wire';

const row = (change: Partial<Instance>): Instance => ({
  instance_id: 'i',
  incarnation: 'i',
  present: true,
  nodes: 0,
  sessions: 0,
  jobs: 0,
  inbox: 0,
  unsettled: 0,
  dead_letters: 0,
  takeovers: 0,
  ...change,
});

test('an instance that is gone does not drain', () => {
  expect(instanceState(row({ present: false, draining: true }))).toBe('gone');
  expect(instanceState(row({ draining: true }))).toBe('draining');
  expect(instanceState(row({}))).toBe('present');
});

test('versions of present instances, the most frequent first', () => {
  const rows = [
    row({ version: '1' }),
    row({ version: '2' }),
    row({ version: '2' }),
    row({ version: '0', present: false }),
  ];
  expect(differing(rows, 'version')).toEqual(['2', '1']);
  expect(differing([row({})], 'keys_digest')).toEqual([]);
});

test('sums', () => {
  expect(sum([row({ inbox: 2 }), row({ inbox: 3 })], 'inbox')).toBe(5);
});

test('what the servers of a store said is old while it does not answer', () => {
  const store: StoreStatus = { kind: 'redis', reachable: true, checked_ms: 100_000, generated_ms: 100_000 };
  expect(serversOld(store, false, 105_000)).toBe(false);
  expect(serversOld(store, false, 130_000)).toBe(true);
  expect(serversOld(store, true, 105_000)).toBe(true);
  expect(serversOld({ ...store, reachable: false }, false, 105_000)).toBe(true);
  expect(serversOld({ kind: 'memory', reachable: true, generated_ms: 1 }, false, 130_000)).toBe(false);
});
