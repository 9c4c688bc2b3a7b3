import { live } from './live.svelte';
import { preferences } from './preferences.svelte';

const staleAfter = 20_000;
const lostAfter = 3000;

/** outage says why the figures of a page may not be true any more; undefined: they are as true as they can be. */
export function outage(now: number): 'offline' | 'store' | 'stale' | undefined {
  if (!live.connected && live.lostFor(now) > lostAfter) return 'offline';
  if (live.status?.store_reachable === false) return 'store';
  if (live.point && !preferences.paused && now - live.point.at_ms > staleAfter) return 'stale';
  return undefined;
}
