import type { Query } from './api';
import type { Tone } from './codes';
import type { Attempt, Decision, Job, JobDetail } from './wire';

/** The filters of the list that the API has under the same names. */
const filters = [
  'search',
  'session_id',
  'node_id',
  'state',
  'reason',
  'end_reason',
  'language',
  'src_lang',
  'tgt_lang',
  'region',
  'tenant_id',
] as const;

/** The names of all filters in the URL: range is a time before now, since and until are fixed times. */
export const jobFilters = [...filters, 'range', 'since', 'until'] as const;

/** The choices of range, in milliseconds. */
export const ranges: Record<string, number> = {
  '5m': 5 * 60_000,
  '15m': 15 * 60_000,
  '1h': 3_600_000,
  '6h': 6 * 3_600_000,
  '24h': 24 * 3_600_000,
};

/** answerable returns the ranges that records of the last milliseconds cover. */
export function answerable(recorded: number): string[] {
  return Object.keys(ranges).filter((name) => (ranges[name] ?? 0) <= recorded);
}

const isTime = (text: string): boolean => /^\d{1,15}$/.test(text);

/** jobQuery returns the filters of the API for those of the URL. */
export function jobQuery(url: URLSearchParams, now: number): Query {
  const query: Query = {};
  for (const name of filters) {
    const value = url.get(name);
    if (value) query[name] = value;
  }
  const name = url.get('range') ?? '';
  const range = Object.hasOwn(ranges, name) ? ranges[name] : undefined;
  const since = url.get('since') ?? '';
  const until = url.get('until') ?? '';
  if (range !== undefined) query['since'] = now - range;
  else if (isTime(since)) query['since'] = Number(since);
  if (range === undefined && isTime(until)) query['until'] = Number(until);
  return query;
}

/** jobKey identifies the filters of the URL, whatever the time is. */
export function jobKey(url: URLSearchParams): string {
  return jobFilters.map((name) => url.get(name) ?? '').join('\n');
}

/** The reasons for which attempts and jobs end. */
export const endReasons = [
  'ACK_TIMEOUT',
  'ATTEMPT_TIMEOUT',
  'DELIVERY_REFUSED',
  'DELIVERY_UNKNOWN',
  'NODE_BUSY',
  'NODE_FAILED',
  'MODEL_NOT_AVAILABLE',
  'DISCONNECTED',
  'NODE_LOST',
  'AUDIO_LOST',
  'MAX_RETRY_EXCEEDED',
  'DEADLINE_EXCEEDED',
  'CANCELLED',
  'ALL_CANDIDATES_FULL_OR_FAILED',
  'SCHEDULER_DEPENDENCY_DOWN',
] as const;

export const jobStates = ['DISPATCHED', 'ACKED', 'RETRYING', 'DONE', 'FAILED', 'CANCELLED'] as const;

const ended = new Set<string>(['DONE', 'FAILED', 'CANCELLED']);

export const hasEnded = (job: Job): boolean => ended.has(job.state);

/** whyNotCancel returns why the jobs that match the filters of the URL cannot be cancelled at once: nothing is filtered, or they have ended. */
export function whyNotCancel(url: URLSearchParams): 'filter' | 'ended' | undefined {
  const state = url.get('state') ?? '';
  if (state === 'ended' || ended.has(state) || url.get('end_reason')) return 'ended';
  return jobFilters.some((name) => url.get(name)) ? undefined : 'filter';
}

/** jobDetail returns what a node says about the end of a job; empty: nothing that the reason does not say. */
export function jobDetail(job: Pick<Job, 'reason' | 'detail'>): string {
  return job.detail === undefined || job.detail === job.reason ? '' : job.detail;
}

/** jobTone returns the tone in which the state of a job is shown. */
export function jobTone(state: string): Tone {
  if (state === 'FAILED') return 'bad';
  if (state === 'RETRYING') return 'warn';
  return state === 'DONE' ? 'ok' : 'plain';
}

/** jobTook returns for how long a job was worked on, until now if it has not ended. */
export function jobTook(job: Job, now: number): number {
  return Math.max(0, (hasEnded(job) ? job.updated_ms : now) - job.created_ms);
}

/** Step is a part of the time of a job: an attempt, or a time in which it waited for a node. */
export interface Step {
  key: string;
  attempt: Attempt | undefined;
  /** The position among the attempts, from 1. An attempt that the node refused because it was busy has the attempt_id of the next one. */
  number: number;
  decision: Decision | undefined;
  from: number;
  to: number;
  /** It has not ended. */
  open: boolean;
}

const shortestWait = 20; // ms; less is the time of the decision itself

/** steps returns the attempts and the waits of a job in their order. */
export function steps(job: JobDetail, now: number): Step[] {
  const over = hasEnded(job);
  const end = over ? job.updated_ms : Math.max(now, job.updated_ms);
  const decisions = [...(job.decisions ?? [])];
  const take = (a: Attempt): Decision | undefined => {
    const i = decisions.findIndex((d) => d.attempt_id === a.attempt_id && d.node_id === a.node_id);
    return i < 0 ? undefined : decisions.splice(i, 1)[0];
  };
  const list: Step[] = [];
  let at = job.created_ms;
  const wait = (until: number, open: boolean): void => {
    if (!open && until - at < shortestWait) return;
    const none = { attempt: undefined, decision: undefined, number: 0 };
    list.push({ key: 'wait-' + list.length, ...none, from: at, to: until, open });
  };
  for (const [i, attempt] of job.attempts.entries()) {
    wait(attempt.started_ms, false);
    const open = attempt.ended_ms === undefined && !over;
    const to = Math.max(attempt.started_ms, attempt.ended_ms ?? end);
    const step = { attempt, number: i + 1, decision: take(attempt) };
    list.push({ key: 'attempt-' + list.length, ...step, from: attempt.started_ms, to, open });
    at = to;
  }
  if (job.state === 'RETRYING') wait(Math.max(at, end), true);
  else if (over && job.state !== 'DONE') wait(end, false);
  return list;
}

/** place returns where a step is on the line of a job, in percent. */
export function place(step: Step, first: number, last: number): { left: number; width: number } {
  const span = Math.max(1, last - first);
  const left = Math.min(99, Math.max(0, ((step.from - first) / span) * 100));
  const width = Math.min(100 - left, Math.max(1, ((step.to - step.from) / span) * 100));
  return { left, width };
}
