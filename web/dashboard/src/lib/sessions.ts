import type { Tone } from './codes';
import type { SessionInfo } from './wire';
import type { Sorting } from './shapes';

/** The stages of the lag behind the speaker, in their order. */
export const stages = ['segmentation', 'wait', 'dispatch', 'node', 'return'] as const;
export type Stage = (typeof stages)[number];

export type SessionState = 'speaking' | 'connected' | 'disconnected';

export function sessionState(s: SessionInfo): SessionState {
  if (!s.connected) return 'disconnected';
  return s.speaking ? 'speaking' : 'connected';
}

export const sessionTones: Record<SessionState, Tone> = { speaking: 'ok', connected: 'plain', disconnected: 'warn' };

/** slowest returns the stage in which the last result spent the most time. */
export function slowest(s: SessionInfo): Stage | undefined {
  const times = s.lag_stages_ms;
  if (!times) return undefined;
  let best: Stage | undefined;
  for (const stage of stages) {
    const ms = times[stage];
    if (ms !== undefined && ms > 0 && (best === undefined || ms > (times[best] ?? 0))) best = stage;
  }
  return best;
}

/** Part is a stage of a lag, with where it begins. */
export interface Part {
  stage: Stage;
  ms: number;
  from: number;
}

/** waterfall returns the stages of a lag one after the other. Stages that are not known are left out. */
export function waterfall(times: Partial<Record<Stage, number>> | undefined): Part[] {
  let from = 0;
  const parts: Part[] = [];
  for (const stage of stages) {
    const ms = times?.[stage];
    if (ms === undefined) continue;
    parts.push({ stage, ms, from });
    from += ms;
  }
  return parts;
}

const values: Record<string, (s: SessionInfo) => number> = {
  lag: (s) => s.last_result_lag_ms ?? -1,
  p95: (s) => s.lag_p95_ms ?? -1,
  pending: (s) => s.pending,
  utterances: (s) => s.utterances,
  reconnects: (s) => s.reconnects ?? -1,
  started: (s) => s.started_ms,
};

/** sortSessions sorts sessions by a column; by none, they keep the order of the API, which does not move. */
export function sortSessions(rows: SessionInfo[], sorting: Sorting): SessionInfo[] {
  const value = Object.hasOwn(values, sorting.by) ? values[sorting.by] : undefined;
  if (!value) return rows;
  const sign = sorting.descending ? -1 : 1;
  return [...rows].sort((a, b) => sign * (value(a) - value(b)) || a.session_id.localeCompare(b.session_id));
}
