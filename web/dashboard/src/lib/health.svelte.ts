import { live } from './live.svelte';
import { preferences } from './preferences.svelte';
import { every, Resource } from './resource.svelte';
import { verdictOf, type Away } from './verdict';
import type { Stats } from './wire';

const whileHidden = 30_000; // ms between two reads: the title and the icon are what one sees of a hidden page

/** The statistics of the fleet, for the overview, and the verdict on it, which every page shows in the title of its window. */
class Health {
  stats = new Resource<Stats>();
  verdict = $derived(verdictOf(this.stats.data, live.point, this.#away()));

  /** start reads the statistics until the function that it returns is called. */
  start(): () => void {
    const read = (): void => void this.stats.read('api/v1/stats');
    const stop = every(5000, read);
    const hidden = setInterval(() => {
      if (document.hidden && !preferences.paused) read();
    }, whileHidden);
    return () => {
      stop();
      clearInterval(hidden);
      this.stats.stop();
    };
  }

  /** #away returns what is away without which nothing is known. A hidden page has no stream, and only the statistics. */
  #away(): Away | undefined {
    const { data, error } = this.stats;
    if (!live.connected && (error?.unreachable || error?.code === 'NOT_JSON')) return 'offline';
    const reachable = live.connected ? live.status?.store_reachable : data?.store.reachable;
    return reachable === false ? 'store' : undefined;
  }
}

export const health = new Health();
