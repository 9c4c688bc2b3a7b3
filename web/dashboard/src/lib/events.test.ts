import { expect, test } from 'vitest';

import { eventDetail, mergeEvents } from './events';
import type { Event } from './wire';

const event = (id: string, at_ms: number): Event => ({ id, at_ms, kind: 'takeover', instance: 'i-1' });

test('events are merged once, the newest first', () => {
  const known = [event('5-0', 50), event('1-0', 10)];
  const merged = mergeEvents(known, [event('2-0', 20), event('5-0', 50), event('5-10', 50), event('5-9', 50)], 10);
  expect(merged.map((e) => e.id)).toEqual(['5-10', '5-9', '5-0', '2-0', '1-0']);
});

test('the oldest are dropped', () => {
  expect(mergeEvents([event('1-0', 10)], [event('2-0', 20), event('3-0', 30)], 2).map((e) => e.id)).toEqual([
    '3-0',
    '2-0',
  ]);
  expect(mergeEvents([event('3-0', 30), event('2-0', 20)], [], 1).map((e) => e.id)).toEqual(['3-0']);
});

test('details in the language of the page', () => {
  const detail = (change: Partial<Event>): string => eventDetail({ ...event('1-0', 1), ...change });
  expect(detail({ kind: 'node_ejected', detail: 'silent, for 35s' })).toBe('no results, for 35 s');
  expect(detail({ kind: 'node_ejected', detail: 'failing, for 1m30s' })).toBe('failed too often, for 1 min 30 s');
  expect(detail({ kind: 'node_ejected', detail: 'bored, for 35s' })).toBe('');
  expect(detail({ kind: 'node_registered', detail: 'new' })).toBe('for the first time');
  expect(detail({ kind: 'node_registered', detail: 'again' })).toBe('again');
  expect(detail({ kind: 'node_lost', detail: 'silent' })).toBe('sent no heartbeats');
  expect(detail({ kind: 'node_lost', detail: 'something new' })).toBe('');
  expect(detail({ kind: 'node_silent', detail: 'nothing came from it for 2.1s' })).toBe(
    'nothing came from it for 2.1 s',
  );
  expect(detail({ kind: 'node_silent', detail: 'nothing came from it for 950ms' })).toBe(
    'nothing came from it for 950 ms',
  );
  expect(detail({ kind: 'node_silent', detail: 'something new' })).toBe('');
  expect(detail({ kind: 'jobs_moved', detail: '1.905s after its last sign' })).toBe('1.9 s after its last sign');
  expect(detail({ kind: 'jobs_moved', detail: '1m2.345s after its last sign' })).toBe('1 min 2 s after its last sign');
  expect(detail({ kind: 'jobs_moved', detail: 'at once after its last sign' })).toBe('');
  expect(detail({ kind: 'coverage', ready: 0, detail: 'en-zh has no ready node' })).toBe('no ready node');
  expect(detail({ kind: 'coverage', ready: 2, detail: 'en-zh has a ready node again' })).toBe('ready nodes again: 2');
  expect(detail({ kind: 'coverage', detail: '4 more directions have no ready node' })).toBe('');
  expect(detail({ kind: 'takeover', detail: 'from i-2-x7' })).toBe('from i-2-x7');
  expect(detail({ kind: 'service_unavailable', detail: 'asr:large@1: runtime_error' })).toBe(
    'asr:large@1: an error while it ran',
  );
  expect(detail({ kind: 'dead_letter', detail: 'i-1/7: FAILED' })).toBe('i-1/7: failed too often');
  expect(detail({ kind: 'pools_changed', detail: 'generation 7 after all' })).toBe('generation 7');
  expect(detail({ kind: 'instance_started', detail: 'v1.2' })).toBe('version v1.2');
  expect(detail({ kind: 'store_down' })).toBe('');
});
