import { catalogues, t, type Key } from './i18n/index.svelte';

export type Tone = 'ok' | 'warn' | 'bad' | 'plain';

function named(prefix: 'code' | 'state' | 'event', name: string): string | undefined {
  const key = prefix + '.' + name;
  return Object.hasOwn(catalogues.en, key) ? t(key as Key) : undefined;
}

/** codeText returns what a reason or an error code means; undefined: it is not known here. */
export const codeText = (code: string): string | undefined => named('code', code);

/** stateText returns the name of a state of a node or a job. A state that is not known is shown as it is. */
export const stateText = (state: string): string => named('state', state) ?? state;

/** eventText returns the name of a kind of events. A kind that is not known is shown as it is. */
export const eventText = (kind: string): string => named('event', kind) ?? kind;

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

/** eventTone returns the tone of a kind of events: those that an operator looks at first stand out. */
export function eventTone(kind: string, detail = ''): Tone {
  switch (kind) {
    case 'node_lost':
    case 'node_ejected':
    case 'store_down':
    case 'dead_letter':
      return 'bad';
    case 'takeover':
    case 'node_drained':
    case 'node_evicted':
    case 'node_removed':
    case 'service_unavailable':
    case 'instance_stopping':
      return 'warn';
    case 'coverage':
      return detail.includes('no ready node') ? 'bad' : 'plain';
    default:
      return 'plain';
  }
}
