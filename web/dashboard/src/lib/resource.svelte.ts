import { untrack } from 'svelte';

import { api, ApiError, type Query } from './api';
import { session } from './caller.svelte';
import { preferences } from './preferences.svelte';
import { takenAt } from './taken';

/** Resource is something that is read from the API again and again. An error keeps what was read before, with its age. */
export class Resource<T> {
  data = $state.raw<T | undefined>();
  /** The time of what data says, on the clock of the server. */
  at = $state(0);
  error = $state.raw<ApiError | undefined>();
  loading = $state(false);
  #abort: AbortController | undefined;
  #key = '';

  /** read reads a path, and replaces a read of another path that is still under way. */
  async read(path: string, query: Query = {}): Promise<void> {
    const key = path + JSON.stringify(query);
    if (this.loading && key === this.#key) return;
    if (key !== this.#key) this.data = undefined;
    this.#key = key;
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.loading = true;
    try {
      const data = await api.get<T>(path, query, abort.signal);
      if (abort.signal.aborted) return;
      this.data = data;
      this.at = takenAt(data);
      this.error = undefined;
    } catch (e) {
      if (abort.signal.aborted) return;
      if (!(e instanceof ApiError)) throw e;
      this.error = e;
      session.failed(e);
    } finally {
      if (this.#abort === abort) this.loading = false;
    }
  }

  stop(): void {
    this.#abort?.abort();
  }
}

/**
 * every calls a function at once, then every few milliseconds while the page is visible and not paused, and when it becomes visible or a
 * pause ends. Use it in an effect, which has to read what it depends on itself: what the function reads, such as whether a request is under
 * way, is not tracked.
 */
export function every(ms: number, fn: () => void): () => void {
  untrack(fn);
  const due = (): void => {
    if (!document.hidden && !preferences.paused) fn();
  };
  const timer = setInterval(due, ms);
  document.addEventListener('visibilitychange', due);
  const resumed = preferences.onresume(due);
  return () => {
    clearInterval(timer);
    document.removeEventListener('visibilitychange', due);
    resumed();
  };
}
