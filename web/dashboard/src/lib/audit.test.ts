import { expect, test } from 'vitest';

import { appendEntries, isAutomatic, selectEntries } from './audit';
import type { AuditEntry } from './wire';

const entry = (id: string, action: string, change: Partial<AuditEntry> = {}): AuditEntry => ({
  id,
  at_ms: 1,
  action,
  outcome: 'ok',
  instance: 'i',
  ...change,
});
const everything = { key: '', action: '', outcome: '', byPeople: false };

test('what nodes and sessions do by themselves is automatic', () => {
  for (const action of ['session.resume', 'node.reconnect', 'node.register', 'session.mint', 'GET /v1/caller'])
    expect(isAutomatic(entry('1', action)), action).toBe(true);
  for (const action of ['node.drain', 'login.begin', 'config.reload', 'GET /v1/config'])
    expect(isAutomatic(entry('1', action)), action).toBe(false);
});

test('the end of a session is automatic unless an operator ended it', () => {
  expect(isAutomatic(entry('1', 'session.end', { role: 'operator' }))).toBe(false);
  expect(isAutomatic(entry('1', 'session.end', { role: 'session' }))).toBe(true);
  expect(isAutomatic(entry('1', 'session.end'))).toBe(true);
});

test('the newest entries that match come first', () => {
  const log = [
    entry('1', 'node.drain', { key: 'ops' }),
    entry('2', 'session.resume', { key: 'ops' }),
    entry('3', 'node.drain', { key: 'ops', outcome: 'denied' }),
    entry('4', 'node.reconnect'),
  ];
  const ids = (change: Partial<typeof everything>, max = 10): string[] =>
    selectEntries(log, { ...everything, ...change }, max).map((e) => e.id);
  expect(ids({})).toEqual(['4', '3', '2', '1']);
  expect(ids({}, 2)).toEqual(['4', '3']);
  expect(ids({ byPeople: true })).toEqual(['3', '1']);
  expect(ids({ byPeople: true, action: 'session.resume' })).toEqual(['2']);
  expect(ids({ key: 'ops', outcome: 'ok' })).toEqual(['2', '1']);
});

test('entries are appended once, and the oldest are dropped', () => {
  const log = appendEntries([entry('1', 'a'), entry('2', 'a')], [entry('2', 'a'), entry('3', 'a')], 2);
  expect(log.map((e) => e.id)).toEqual(['2', '3']);
});
