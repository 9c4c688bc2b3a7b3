import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { api, ApiError } from './api';
import { List } from './list.svelte';
import { Rows } from './rows.svelte';

/** Request is a request that the test answers when it wants to. */
interface Request {
  url: URL;
  signal: AbortSignal | undefined;
  answer: (body: unknown) => Promise<void>;
}
let requests: Request[];

beforeEach(() => {
  requests = [];
  vi.stubGlobal('fetch', (url: URL, init: RequestInit) => {
    return new Promise((resolve, reject) => {
      const signal = init.signal ?? undefined;
      signal?.addEventListener('abort', () => {
        reject(new DOMException('aborted', 'AbortError'));
      });
      const answer = async (body: unknown): Promise<void> => {
        resolve(new Response(JSON.stringify(body)));
        await new Promise((done) => setTimeout(done)); // until what waits for it has gone on
      };
      requests.push({ url, signal, answer });
    });
  });
});
afterEach(() => {
  vi.unstubAllGlobals();
});

const newList = (): List<string, { rows: string[]; next_cursor?: string }> => new List('v1/jobs', (p) => p.rows);

test('a list that is read for longer than its interval appears', async () => {
  const list = newList();
  void list.show({ state: 'open' });
  void list.show({ state: 'open' });
  void list.show({ state: 'open' });
  expect(requests).toHaveLength(1);
  await requests[0]?.answer({ rows: ['a', 'b'] });
  expect(list.rows).toEqual(['a', 'b']);
  expect(list.loading).toBe(false);
  void list.show({ state: 'open' });
  expect(requests).toHaveLength(2);
});

test('other filters abort the read of a list', async () => {
  const list = newList();
  void list.show({ state: 'open' });
  void list.show({ state: 'DONE' }, { wanted: 1 });
  expect(requests.map((r) => r.signal?.aborted)).toEqual([true, false]);
  await requests[1]?.answer({ rows: ['done'], next_cursor: 'next' });
  expect(list.rows).toEqual(['done']);
  expect(list.complete).toBe(false);
  expect(list.error).toBeUndefined();
  void list.more({ state: 'DONE' });
  void list.more({ state: 'DONE' });
  expect(requests).toHaveLength(3);
  expect(requests[2]?.url.searchParams.get('cursor')).toBe('next');
  await requests[2]?.answer({ rows: ['more'] });
  expect(list.rows).toEqual(['done', 'more']);
});

test('a table that is read for longer than its interval appears, and other filters abort its reads', async () => {
  const rows = new Rows<string, { matches: number; offset: number; rows: string[] }>('v1/nodes/table');
  void rows.show({ sort: 'name' });
  void rows.show({ sort: 'name' });
  expect(requests).toHaveLength(1);
  await requests[0]?.answer({ matches: 2, offset: 0, rows: ['a', 'b'] });
  expect([rows.count, rows.row(0), rows.row(1)]).toEqual([2, 'a', 'b']);
  void rows.show({ sort: 'name' });
  void rows.show({ sort: 'load' });
  expect(requests.map((r) => r.signal?.aborted)).toEqual([true, true, false]); // the first has ended long ago
  await requests[2]?.answer({ matches: 1, offset: 0, rows: ['c'] });
  expect([rows.count, rows.row(0), rows.error]).toEqual([1, 'c', undefined]);
});

test('a connection that breaks in the body is an error like others', async () => {
  vi.stubGlobal('fetch', () =>
    Promise.resolve({
      ok: true,
      status: 200,
      headers: new Headers(),
      text: () => Promise.reject(new TypeError('network error')),
    }),
  );
  const failure = await api.get('v1/jobs').catch((e: unknown) => e);
  expect(failure).toBeInstanceOf(ApiError);
  expect(failure).toMatchObject({ status: 0, code: 'UNREACHABLE', unreachable: true });
});
