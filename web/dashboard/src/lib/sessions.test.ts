import { expect, test } from 'vitest';

import type { SessionInfo } from './wire';
import { sessionState, slowest, sortSessions, waterfall } from './sessions';

const row = (id: string, change: Partial<SessionInfo> = {}): SessionInfo => ({
  session_id: id,
  instance: 'i',
  langs: ['en', 'zh'],
  started_ms: 1,
  connected: true,
  utterances: 0,
  pending: 0,
  reconnects: 0,
  speaking: false,
  last_active_ms: 1,
  ...change,
});

test('a session that is not connected does not speak', () => {
  expect(sessionState(row('a', { connected: false, speaking: true }))).toBe('disconnected');
  expect(sessionState(row('a', { speaking: true }))).toBe('speaking');
  expect(sessionState(row('a'))).toBe('connected');
});

test('the slowest stage', () => {
  expect(slowest(row('a'))).toBeUndefined();
  expect(slowest(row('a', { lag_stages_ms: { segmentation: 0, wait: 20, dispatch: 0, node: 300, return: 0 } }))).toBe(
    'node',
  );
  expect(
    slowest(row('a', { lag_stages_ms: { segmentation: 0, wait: 0, dispatch: 0, node: 0, return: 0 } })),
  ).toBeUndefined();
});

test('stages follow one another', () => {
  expect(waterfall(undefined)).toEqual([]);
  expect(waterfall({ return: 5, node: 300, segmentation: 100 })).toEqual([
    { stage: 'segmentation', ms: 100, from: 0 },
    { stage: 'node', ms: 300, from: 100 },
    { stage: 'return', ms: 5, from: 400 },
  ]);
});

test('sessions without a lag come last when the largest is first', () => {
  const rows = [row('a'), row('b', { last_result_lag_ms: 5 }), row('c', { last_result_lag_ms: 9 })];
  expect(sortSessions(rows, { by: 'lag', descending: true }).map((r) => r.session_id)).toEqual(['c', 'b', 'a']);
  expect(sortSessions(rows, { by: '', descending: false })).toBe(rows);
  expect(sortSessions(rows, { by: 'toString', descending: false })).toBe(rows);
});
