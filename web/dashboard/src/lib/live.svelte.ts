import { url } from './api';
import { session } from './caller.svelte';
import { preferences } from './preferences.svelte';
import type { ClusterPoint, FleetEvent } from './types';

const maxEvents = 200;
const retryAfter = 2000;

/** One stream for each page: the newest figures of the fleet and its events. It is closed while the page is hidden. */
class Live {
  connected = $state(false);
  /** The newest figures; undefined: none came yet, or the caller sees one tenant only. */
  point = $state.raw<ClusterPoint | undefined>();
  /** Grows with every change that lists should show. */
  changes = $state(0);
  events = $state.raw<FleetEvent[]>([]);
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

  #open(): void {
    if (this.#source) return;
    const source = new EventSource(url('v1/live'), { withCredentials: true });
    this.#source = source;
    source.onopen = () => {
      this.connected = true;
      this.changes++; // what was missed
    };
    source.onerror = () => {
      // A browser opens a stream that has ended by itself, but gives up after an error of the server.
      this.connected = false;
      if (source.readyState !== EventSource.CLOSED) return;
      this.#close();
      void session.load();
      this.#retry = setTimeout(() => {
        if (!document.hidden) this.#open();
      }, retryAfter);
    };
    source.addEventListener('overview', (e: MessageEvent<string>) => {
      if (!preferences.paused) this.point = (JSON.parse(e.data) as { point: ClusterPoint }).point;
    });
    source.addEventListener('events', (e: MessageEvent<string>) => {
      if (preferences.paused) return;
      this.events = [...(JSON.parse(e.data) as FleetEvent[]).reverse(), ...this.events].slice(0, maxEvents);
      this.changes++;
    });
    source.addEventListener('gap', () => {
      this.changes++;
    });
  }

  #close(): void {
    clearTimeout(this.#retry);
    this.#source?.close();
    this.#source = undefined;
    this.connected = false;
  }
}

export const live = new Live();
