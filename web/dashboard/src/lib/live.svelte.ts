import { url } from './api';
import { backoff } from './backoff';
import { serverClock } from './clock.svelte';
import { session } from './caller.svelte';
import { preferences } from './preferences.svelte';
import type { ClusterPoint, Event as FleetEvent, LiveOverview, LiveStatus } from './wire';

const maxEvents = 200;
const grace = 4000; // in which a stream that has ended may be replaced without anybody noticing

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
  #failed = 0; // attempts since the last stream
  #source: EventSource | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #grace: ReturnType<typeof setTimeout> | undefined;

  /** start keeps the stream open while the page is visible. */
  start(): () => void {
    const follow = (): void => {
      if (document.hidden) this.#close();
      else this.#open();
    };
    document.addEventListener('visibilitychange', follow);
    const resumed = preferences.onresume(() => {
      this.changes++; // what was not shown during the pause
    });
    follow();
    return () => {
      document.removeEventListener('visibilitychange', follow);
      resumed();
      this.#close();
    };
  }

  /** lostFor returns for how long the stream is not connected although it should be. */
  lostFor(now: number): number {
    return this.#lostAt === 0 ? 0 : now - this.#lostAt;
  }

  #open(): void {
    if (this.#source || this.#retry !== undefined) return;
    const source = new EventSource(url('v1/live'), { withCredentials: true });
    this.#source = source;
    source.onopen = () => {
      clearTimeout(this.#grace);
      this.connected = true;
      this.#lostAt = 0;
      this.#failed = 0;
      this.#changed(); // what was missed
    };
    source.onerror = () => {
      this.#lost(source);
    };
    source.addEventListener('overview', (e: MessageEvent<string>) => {
      if (!preferences.paused) this.point = (JSON.parse(e.data) as LiveOverview).point;
    });
    source.addEventListener('events', (e: MessageEvent<string>) => {
      if (preferences.paused) return; // they are read when the pause ends
      this.events = [...(JSON.parse(e.data) as FleetEvent[]).reverse(), ...this.events].slice(0, maxEvents);
      this.#changed();
    });
    source.addEventListener('status', (e: MessageEvent<string>) => {
      this.status = JSON.parse(e.data) as LiveStatus;
    });
    source.addEventListener('gap', () => {
      this.#changed();
    });
  }

  #changed(): void {
    if (!preferences.paused) this.changes++;
  }

  /**
   * lost opens another stream after a while. The server ends each stream after some time: one that was open is replaced, and only if that
   * fails or takes too long, the connection counts as lost. The browser would retry by itself, at a fixed interval.
   */
  #lost(source: EventSource): void {
    const ended = this.connected && this.#lostAt === 0;
    source.close();
    this.#source = undefined;
    clearTimeout(this.#grace);
    if (this.#lostAt === 0) this.#lostAt = serverClock.time();
    if (ended) {
      this.#grace = setTimeout(() => (this.connected = false), grace);
    } else {
      this.connected = false;
      void session.load(); // the login may have ended
    }
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      if (!document.hidden) this.#open();
    }, backoff(this.#failed++));
  }

  #close(): void {
    clearTimeout(this.#retry);
    clearTimeout(this.#grace);
    this.#retry = undefined;
    this.#source?.close();
    this.#source = undefined;
    this.#lostAt = 0;
    this.#failed = 0;
    this.connected = false;
  }
}

export const live = new Live();
