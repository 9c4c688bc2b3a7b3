import { catalogues, t, type Key } from './i18n/index.svelte';
import type { Event } from './wire';

export type Tone = 'ok' | 'warn' | 'bad' | 'plain';

function named(prefix: 'code' | 'state' | 'event' | 'role', name: string): string | undefined {
  const key = prefix + '.' + name;
  return Object.hasOwn(catalogues.en, key) ? t(key as Key) : undefined;
}

/** codeText returns what a reason or an error code means; undefined: it is not known here. */
export const codeText = (code: string): string | undefined => named('code', code);

/** stateText returns the name of a state of a node or a job. A state that is not known is shown as it is. */
export const stateText = (state: string): string => named('state', state) ?? state;

/** eventText returns the name of a kind of events. A kind that is not known is shown as it is. */
export const eventText = (kind: string): string => named('event', kind) ?? kind;

/** roleText returns the name of a role. A role that is not known is shown as it is. */
export const roleText = (role: string): string => named('role', role) ?? role;

const nodeTones: Record<string, Tone> = {
  ready: 'ok',
  degraded: 'warn',
  draining: 'warn',
  disconnected: 'warn',
  ejected: 'bad',
  offline: 'bad',
};

/** nodeTone returns the tone in which the state of a node is shown. */
export const nodeTone = (state: string): Tone => nodeTones[state] ?? 'plain';

/** eventTone returns the tone of an event: those that an operator looks at first stand out. */
export function eventTone(e: Pick<Event, 'kind' | 'ready' | 'detail'>): Tone {
  switch (e.kind) {
    case 'node_lost':
    case 'node_ejected':
    case 'store_down':
    case 'dead_letter':
      return 'bad';
    case 'node_silent':
    case 'jobs_moved':
    case 'takeover':
    case 'node_drained':
    case 'node_evicted':
    case 'node_removed':
    case 'service_unavailable':
    case 'instance_stopping':
      return 'warn';
    case 'coverage':
      // The event of many directions together has no number of nodes.
      return (e.ready ?? (e.detail?.includes('no ready node') ? 0 : 1)) === 0 ? 'bad' : 'plain';
    default:
      return 'plain';
  }
}

const poolReasons: Record<string, string> = {
  missing_core_asr_installed: 'ASR_LANG_UNSUPPORTED',
  missing_core_semantic_installed: 'SEMANTIC_LANG_UNSUPPORTED',
  missing_core_nmt_installed: 'NMT_PAIR_UNSUPPORTED',
  missing_core_tts_installed: 'TTS_LANG_UNSUPPORTED',
  missing_core_asr_not_ready: 'ASR_SERVICE_NOT_READY',
  missing_core_semantic_not_ready: 'SEMANTIC_SERVICE_NOT_READY',
  missing_core_nmt_not_ready: 'NMT_SERVICE_NOT_READY',
  missing_core_tts_not_ready: 'TTS_SERVICE_NOT_READY',
};

/** poolReason returns the code of the reason for which a pool has no free node, which its metric names otherwise. */
export function poolReason(reason: string): string {
  const code = (Object.hasOwn(poolReasons, reason) ? poolReasons[reason] : undefined) ?? reason.toUpperCase();
  return codeText(code) === undefined ? reason : code;
}
