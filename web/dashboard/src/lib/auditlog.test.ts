import { afterEach, expect, test, vi } from 'vitest';

import { AuditLog } from './auditlog.svelte';
import type { AuditEntry, AuditList } from './wire';

const entry = (n: number): AuditEntry => ({
  id: '1-' + n,
  at_ms: n,
  action: 'node.drain',
  outcome: 'ok',
  instance: 'i',
});

/** serve answers requests for the log from a list of entries, and returns the positions that were asked for. */
function serve(log: AuditEntry[]): string[] {
  const asked: string[] = [];
  vi.stubGlobal('fetch', (url: URL) => {
    const after = url.searchParams.get('after') ?? '';
    asked.push(after);
    const from = log.findIndex((e) => e.id === after) + 1;
    const entries = log.slice(from, from + Number(url.searchParams.get('limit')));
    const list: AuditList = { entries, next: entries.at(-1)?.id ?? after };
    return Promise.resolve(new Response(JSON.stringify(list)));
  });
  return asked;
}

afterEach(() => {
  vi.unstubAllGlobals();
});

test('the log is read from its beginning, and then only what was added', async () => {
  const kept = Array.from({ length: 1500 }, (_, i) => entry(i + 1));
  const asked = serve(kept);
  const log = new AuditLog();
  await log.read();
  expect(asked).toEqual(['0-0', '1-1000']);
  expect(log.entries).toHaveLength(1500);
  kept.push(entry(1501));
  await log.read();
  expect(asked.at(-1)).toBe('1-1500');
  expect(log.entries.map((e) => e.id)).toEqual(kept.map((e) => e.id));
});

test('after an error the log is read again, and what was read stays', async () => {
  const kept = [entry(1), entry(2)];
  serve(kept);
  const log = new AuditLog();
  await log.read();
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('no connection')));
  await log.read();
  expect(log.error?.unreachable).toBe(true);
  expect(log.entries).toHaveLength(2);
  const asked = serve(kept);
  await log.read();
  expect(asked).toEqual(['0-0']);
  expect(log.entries).toHaveLength(2);
  expect(log.error).toBeUndefined();
});
