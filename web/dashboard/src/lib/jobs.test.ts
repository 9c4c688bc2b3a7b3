import { expect, test } from 'vitest';

import { answerable, jobDetail, jobKey, jobQuery, jobTook, place, steps, whyNotCancel } from './jobs';
import type { JobDetail } from './wire';

const job = (change: Partial<JobDetail>): JobDetail => ({
  job_id: 'job-1',
  request_id: 'r',
  session_id: 's',
  src_lang: 'en',
  tgt_lang: 'zh',
  state: 'DONE',
  node_id: 'b',
  attempt_id: 2,
  created_ms: 1000,
  updated_ms: 3000,
  deadline_ms: 31_000,
  attempts: [],
  ...change,
});

test('filters of the URL become filters of the API', () => {
  const url = new URLSearchParams('state=FAILED&range=5m&until=7&kiosk=1&node_id=');
  expect(jobQuery(url, 1_000_000)).toEqual({ state: 'FAILED', since: 700_000 });
  expect(jobQuery(new URLSearchParams('since=5&until=9'), 0)).toEqual({ since: 5, until: 9 });
  expect(jobQuery(new URLSearchParams('since=yesterday&range=toString'), 0)).toEqual({});
});

test('ranges that go back further than the records are not offered', () => {
  expect(answerable(0)).toEqual([]);
  expect(answerable(20 * 60_000)).toEqual(['5m', '15m']);
  expect(answerable(Date.now())).toEqual(['5m', '15m', '1h', '6h', '24h']);
});

test('the key of a list does not move with the time', () => {
  expect(jobKey(new URLSearchParams('range=5m&kiosk=1'))).toBe(jobKey(new URLSearchParams('range=5m')));
  expect(jobKey(new URLSearchParams('range=5m'))).not.toBe(jobKey(new URLSearchParams('range=1h')));
});

test('a wait between two attempts is a step, and decisions belong to their attempts', () => {
  const list = steps(
    job({
      attempts: [
        { attempt_id: 1, node_id: 'a', started_ms: 1000, ended_ms: 1500, reason: 'NODE_FAILED' },
        { attempt_id: 2, node_id: 'b', started_ms: 2500, ended_ms: 3000 },
      ],
      decisions: [
        { attempt_id: 2, at_ms: 2499, instance: 'i', node_id: 'b', candidates: [], others: {} },
        { attempt_id: 1, at_ms: 999, instance: 'i', node_id: 'a', candidates: [], others: {} },
      ],
    }),
    9000,
  );
  expect(list.map((s) => [s.attempt?.node_id, s.decision?.node_id, s.from, s.to, s.open])).toEqual([
    ['a', 'a', 1000, 1500, false],
    [undefined, undefined, 1500, 2500, false],
    ['b', 'b', 2500, 3000, false],
  ]);
});

test('a job that is retried waits until now', () => {
  const list = steps(
    job({
      state: 'RETRYING',
      attempts: [{ attempt_id: 1, node_id: 'a', started_ms: 1000, ended_ms: 2000, reason: 'NODE_LOST' }],
    }),
    5000,
  );
  expect(list.at(-1)).toMatchObject({ attempt: undefined, from: 2000, to: 5000, open: true });
});

test('an attempt that runs lasts until now', () => {
  const running = job({ state: 'ACKED', attempts: [{ attempt_id: 1, node_id: 'a', started_ms: 1000 }] });
  expect(steps(running, 4000)).toMatchObject([{ from: 1000, to: 4000, open: true }]);
  expect(jobTook(running, 4000)).toBe(3000);
  expect(jobTook(job({}), 9000)).toBe(2000);
});

test('attempts are numbered by their position: a busy node does not count as an attempt of the scheduler', () => {
  const list = steps(
    job({
      attempts: [
        { attempt_id: 1, node_id: 'a', started_ms: 1000, ended_ms: 1500, reason: 'NODE_BUSY' },
        { attempt_id: 1, node_id: 'b', started_ms: 2500, ended_ms: 3000 },
      ],
    }),
    9000,
  );
  expect(list.map((s) => [s.number, s.attempt?.attempt_id])).toEqual([
    [1, 1],
    [0, undefined],
    [2, 1],
  ]);
});

test('jobs that have ended cannot be cancelled', () => {
  expect(whyNotCancel(new URLSearchParams(''))).toBe('filter');
  expect(whyNotCancel(new URLSearchParams('kiosk=1'))).toBe('filter');
  for (const state of ['ended', 'DONE', 'FAILED', 'CANCELLED'])
    expect(whyNotCancel(new URLSearchParams('node_id=a&state=' + state)), state).toBe('ended');
  for (const state of ['open', 'RETRYING', 'ACKED'])
    expect(whyNotCancel(new URLSearchParams('state=' + state)), state).toBeUndefined();
  expect(whyNotCancel(new URLSearchParams('node_id=a'))).toBeUndefined();
});

test('a detail that repeats the reason says nothing', () => {
  expect(jobDetail({ reason: 'NODE_BUSY', detail: 'NODE_BUSY' })).toBe('');
  expect(jobDetail({ reason: 'NODE_FAILED', detail: 'out of memory' })).toBe('out of memory');
  expect(jobDetail({ reason: 'NODE_FAILED' })).toBe('');
});

test('steps stay on the line', () => {
  const step = { key: '', attempt: undefined, number: 0, decision: undefined, from: 10, to: 20, open: false };
  expect(place(step, 0, 100)).toEqual({ left: 10, width: 10 });
  expect(place(step, 10, 10)).toEqual({ left: 0, width: 100 });
  const late = place({ ...step, from: 100, to: 100 }, 0, 100);
  expect(late.left + late.width).toBeLessThanOrEqual(100);
});
