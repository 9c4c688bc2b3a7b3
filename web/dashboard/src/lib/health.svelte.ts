import { live } from './live.svelte';
import { every, Resource } from './resource.svelte';
import { verdictOf } from './verdict';
import type { Stats } from './wire';

/** The statistics of the fleet, for the overview, and the verdict on it, which every page shows in the title of its window. */
class Health {
  stats = new Resource<Stats>();
  verdict = $derived(verdictOf(this.stats.data, live.point, live.status?.store_reachable === false));

  /** start reads the statistics until the function that it returns is called. */
  start(): () => void {
    const stop = every(5000, () => void this.stats.read('api/v1/stats'));
    return () => {
      stop();
      this.stats.stop();
    };
  }
}

export const health = new Health();
