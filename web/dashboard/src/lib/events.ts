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
