import { expect, test } from 'vitest';

import { mergeEvents } from './events';
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
