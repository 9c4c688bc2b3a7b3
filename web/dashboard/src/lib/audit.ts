import type { AuditEntry } from './wire';

/** What nodes and sessions do by themselves, as often as connections come and go, and how the dashboard finds out that nobody has logged in. */
const automatic = new Set<string>([
  'node.register',
  'node.reconnect',
  'node.leave',
  'node.message',
  'session.mint',
  'session.start',
  'session.resume',
  'session.renew',
  'session.message',
  'GET /v1/caller',
]);

/** The roles of keys that people use. */
const people = new Set<string>(['operator', 'viewer']);

/**
 * isAutomatic reports whether an entry is about something that a node or a session did by itself. A session ends with its client, or because
 * an operator ends it: the role of the caller tells which.
 */
export function isAutomatic(e: AuditEntry): boolean {
  if (e.action === 'session.end') return !people.has(e.role ?? '');
  return automatic.has(e.action);
}

/** Wanted is which entries of the log are shown. An empty text matches all. */
export interface Wanted {
  key: string;
  action: string;
  outcome: string;
  /** Leave out what is automatic. An action that is asked for by its name is shown in any case. */
  byPeople: boolean;
}

/** selectEntries returns the entries that match, the newest first, at most max. */
export function selectEntries(log: readonly AuditEntry[], wanted: Wanted, max: number): AuditEntry[] {
  const found: AuditEntry[] = [];
  for (let i = log.length - 1; i >= 0 && found.length < max; i--) {
    const e = log[i];
    if (!e) continue;
    if (wanted.key !== '' && e.key !== wanted.key) continue;
    if (wanted.action !== '' && e.action !== wanted.action) continue;
    if (wanted.outcome !== '' && e.outcome !== wanted.outcome) continue;
    if (wanted.byPeople && wanted.action === '' && isAutomatic(e)) continue;
    found.push(e);
  }
  return found;
}

/** appendEntries adds entries to those that were read before: each once, and only the newest are kept. */
export function appendEntries(log: readonly AuditEntry[], more: readonly AuditEntry[], keep: number): AuditEntry[] {
  if (more.length === 0) return log.slice(-keep);
  const known = new Set(log.map((e) => e.id));
  return [...log, ...more.filter((e) => !known.has(e.id))].slice(-keep);
}
