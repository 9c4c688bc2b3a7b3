import type { Tone } from './codes';
import type { Instance, StoreStatus } from './wire';

export type InstanceState = 'present' | 'draining' | 'gone';

export function instanceState(i: Instance): InstanceState {
  if (!i.present) return 'gone';
  return i.draining ? 'draining' : 'present';
}

export const instanceTones: Record<InstanceState, Tone> = { present: 'ok', draining: 'warn', gone: 'bad' };

/** differing returns the values of a field of the instances that are present, the most frequent first. */
export function differing(rows: Instance[], field: 'version' | 'keys_digest'): string[] {
  const counts: Record<string, number> = {};
  for (const row of rows) {
    const value = row[field];
    if (row.present && value) counts[value] = (counts[value] ?? 0) + 1;
  }
  return Object.keys(counts).sort((a, b) => (counts[b] ?? 0) - (counts[a] ?? 0) || a.localeCompare(b));
}

/** sum adds up a field of all instances. */
export function sum(rows: Instance[], field: 'inbox' | 'dead_letters' | 'jobs'): number {
  return rows.reduce((n, row) => n + row[field], 0);
}

const checkedOften = 20_000; // ms; the servers of a store that answers are asked every few seconds

/** serversOld reports whether the servers of the store were not asked recently: it does not answer, or could not be read. */
export function serversOld(store: StoreStatus, failed: boolean, now: number): boolean {
  return failed || !store.reachable || now - (store.checked_ms ?? now) > checkedOften;
}

/** The kinds of events that are about instances and the store. */
export const instanceEvents = [
  'takeover',
  'instance_started',
  'instance_stopping',
  'store_down',
  'store_up',
  'stats_leader',
  'dead_letter',
] as const;
