import { api, ApiError } from './api';
import { serverClock } from './clock.svelte';
import { session } from './caller.svelte';
import type { ClusterPoint, ClusterSeries } from './wire';
import { merge } from './series';

const keep = 3_600_000;

/** FleetSeries is the last hour of the fleet. It is read once, and grows with the points of the stream. */
export class FleetSeries {
  points = $state.raw<ClusterPoint[]>([]);
  interval = $state(5000);
  at = $state(0);
  error = $state.raw<ApiError | undefined>();
  #reading = false;

  get last(): ClusterPoint | undefined {
    return this.points.at(-1);
  }

  /** read reads the points after those that are known. */
  async read(): Promise<void> {
    if (this.#reading) return;
    this.#reading = true;
    try {
      const answer = await api.get<ClusterSeries>('api/v1/series', { from: this.last?.at_ms });
      this.interval = answer.interval_ms;
      this.points = merge(this.points, answer.points, keep);
      this.at = serverClock.time();
      this.error = undefined;
    } catch (e) {
      if (!(e instanceof ApiError)) throw e;
      this.error = e;
      session.failed(e);
    } finally {
      this.#reading = false;
    }
  }

  /** add adds a point of the stream. One that does not follow the last closely is left to read, which brings those between, too. */
  add(point: ClusterPoint): void {
    const last = this.last;
    if (!last || point.at_ms - last.at_ms > 2.5 * this.interval) return;
    this.points = merge(this.points, [point], keep);
    this.at = serverClock.time();
  }
}
