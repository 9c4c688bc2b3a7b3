import { codeText } from './codes';
import { duration } from './format';
import { t } from './i18n/index.svelte';
import type { Event } from './wire';

/** mergeEvents adds events to those that are known: each once, the newest first, at most max. */
export function mergeEvents(known: readonly Event[], more: readonly Event[], max: number): Event[] {
  const ids = new Set(known.map((e) => e.id));
  const fresh = more.filter((e) => !ids.has(e.id) && ids.add(e.id));
  if (fresh.length === 0) return known.slice(0, max);
  return [...known, ...fresh].sort((a, b) => b.at_ms - a.at_ms || position(b.id) - position(a.id)).slice(0, max);
}

/** position returns the number of an event among those of the same millisecond. */
function position(id: string): number {
  return Number(id.slice(id.indexOf('-') + 1)) || 0;
}

/** goDuration reads a duration as the scheduler writes it, such as 1m30s, 2.13s or 950ms, in milliseconds. */
function goDuration(text: string): number | undefined {
  const parts = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?$/.exec(text);
  if (!parts || text === '') return undefined;
  const [hours, minutes, seconds, ms] = parts.slice(1).map((n) => Number(n ?? 0));
  return Math.round(((hours ?? 0) * 3600 + (minutes ?? 0) * 60 + (seconds ?? 0)) * 1000) + (ms ?? 0);
}

const ejections = ['failing', 'ack_timeouts', 'silent'] as const;

function ejection(detail: string): string {
  const [reason, time] = detail.split(', for ');
  const known = ejections.find((r) => r === reason);
  const ms = goDuration(time ?? '');
  if (!known) return '';
  const why = t(`event.ejected.${known}`);
  return ms === undefined ? why : t('event.ejected.for', { why, time: duration(ms) });
}

function registration(detail: string): string {
  if (detail === 'new') return t('event.registered.new');
  return detail === 'again' ? t('event.registered.again') : '';
}

function loss(detail: string): string {
  if (detail === 'silent') return t('event.lost.silent');
  return detail === 'did not reconnect' ? t('event.lost.reconnect') : '';
}

function silence(detail: string): string {
  const ms = goDuration(/^nothing came from it for (.+)$/.exec(detail)?.[1] ?? '');
  return ms === undefined ? '' : t('event.silent.for', { time: duration(ms) });
}

function move(detail: string): string {
  const ms = goDuration(/^(.+) after its last sign$/.exec(detail)?.[1] ?? '');
  return ms === undefined ? '' : t('event.moved.after', { time: duration(ms) });
}

/** split returns what is before and after a mark; undefined: the text does not have it. */
function split(text: string, mark: string): [before: string, after: string] | undefined {
  const at = text.lastIndexOf(mark);
  return at < 0 ? undefined : [text.slice(0, at), text.slice(at + mark.length)];
}

function deadReason(reason: string): string {
  return reason === 'FAILED' || reason === 'NOT_UNDERSTOOD' ? t(`instances.dead.reason.${reason}`) : reason;
}

/**
 * eventDetail returns the details of an event in the language of the page. The scheduler writes them in English for logs; of those that are
 * not known here nothing is returned, and the page has the English text as a title.
 */
export function eventDetail(e: Event): string {
  const detail = e.detail ?? '';
  switch (e.kind) {
    case 'coverage':
      if (e.ready === undefined) return '';
      return e.ready === 0 ? t('event.coverage.none') : t('event.coverage.again', { n: e.ready });
    case 'node_registered':
      return registration(detail);
    case 'node_lost':
      return loss(detail);
    case 'node_silent':
      return silence(detail);
    case 'jobs_moved':
      return move(detail);
    case 'node_removed':
      return detail === 'revoked' ? t('event.removed.revoked') : '';
    case 'node_ejected':
      return ejection(detail);
    case 'instance_started':
      return detail === '' ? '' : t('event.started.version', { version: detail });
    case 'takeover': {
      const parts = split(detail, 'from ');
      return parts ? t('event.takeover.from', { instance: parts[1] }) : '';
    }
    case 'service_unavailable': {
      const parts = split(detail, ': ');
      return parts ? t('event.service', { service: parts[0], reason: codeText(parts[1]) ?? parts[1] }) : '';
    }
    case 'dead_letter': {
      const parts = split(detail, ': ');
      return parts ? t('event.dead', { id: parts[0], reason: deadReason(parts[1]) }) : '';
    }
    case 'pools_changed': {
      const generation = /^generation (\d+)/.exec(detail)?.[1];
      return generation === undefined ? '' : t('event.pools', { generation });
    }
    default:
      return '';
  }
}
