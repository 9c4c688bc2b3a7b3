import { url } from './api';
import { ticking } from './clock.svelte';
import { session } from './caller.svelte';
import { preferences } from './preferences.svelte';
import type { ClusterPoint, Event as FleetEvent, LiveOverview, LiveStatus } from './wire';

const maxEvents = 200;
const retryAfter = 2000;

/** One stream for each page: the newest figures of the fleet and its events. It is closed while the page is hidden. */
class Live {
  connected = $state(false);
  /** The instance that the page is connected to; undefined: none yet. */
  status = $state.raw<LiveStatus | undefined>();
  /** The newest figures; undefined: none came yet, or the caller sees one tenant only. */
  point = $state.raw<ClusterPoint | undefined>();
  /** Grows with every change that lists should show. */
  changes = $state(0);
  events = $state.raw<FleetEvent[]>([]);
  /** When the connection was lost; 0: it is not. */
  #lostAt = 0;
  #source: EventSource | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;

  /** start keeps the stream open while the page is visible. */
  start(): () => void {
    const follow = (): void => {
      if (document.hidden) this.#close();
      else this.#open();
    };
    document.addEventListener('visibilitychange', follow);
    follow();
    return () => {
      document.removeEventListener('visibilitychange', follow);
      this.#close();
    };
  }

  /** lostFor returns for how long the stream is not connected although it should be. */
  lostFor(now: number): number {
    return this.#lostAt === 0 ? 0 : now - this.#lostAt;
  }

  #lost(): void {
    this.connected = false;
    if (this.#lostAt === 0) this.#lostAt = ticking.time();
  }

  #open(): void {
    if (this.#source) return;
    const source = new EventSource(url('v1/live'), { withCredentials: true });
    this.#source = source;
    source.onopen = () => {
      this.connected = true;
      this.#lostAt = 0;
      this.changes++; // what was missed
    };
    source.onerror = () => {
      // A browser opens a stream that has ended by itself, but gives up after an error of the server.
      this.#lost();
      if (source.readyState !== EventSource.CLOSED) return;
      this.#source = undefined;
      void session.load();
      this.#retry = setTimeout(() => {
        if (!document.hidden) this.#open();
      }, retryAfter);
    };
    source.addEventListener('overview', (e: MessageEvent<string>) => {
      if (!preferences.paused) this.point = (JSON.parse(e.data) as LiveOverview).point;
    });
    source.addEventListener('events', (e: MessageEvent<string>) => {
      if (preferences.paused) return;
      this.events = [...(JSON.parse(e.data) as FleetEvent[]).reverse(), ...this.events].slice(0, maxEvents);
      this.changes++;
    });
    source.addEventListener('status', (e: MessageEvent<string>) => {
      this.status = JSON.parse(e.data) as LiveStatus;
    });
    source.addEventListener('gap', () => {
      this.changes++;
    });
  }

  #close(): void {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = undefined;
    this.#lostAt = 0;
    this.connected = false;
  }
}

export const live = new Live();
