import { api, ApiError, type Query } from './api';
import { session } from './caller.svelte';
import { takenAt } from './taken';

/** Page is a part of a list. */
interface Page {
  next_cursor?: string;
}

/** Options of one read of a list. */
export interface Reading {
  /** What identifies the filters. The default is the query; a query with a time that moves has the same key each time. */
  key?: string;
  /** How many rows are read; the default is as many as were read before with the same filters. */
  wanted?: number;
}

/** List is a list of the API that is read page by page, as far as it is scrolled. */
export class List<T, P extends Page> {
  rows = $state.raw<T[]>([]);
  /** The first page that was read last, for what it says about the whole list. */
  first = $state.raw<P | undefined>();
  /** The time of what the first page says, on the clock of the server. */
  at = $state(0);
  complete = $state(false);
  loading = $state(false);
  error = $state.raw<ApiError | undefined>();
  #cursor = '';
  #key = '';
  #query: Query = {};
  #abort: AbortController | undefined; // of the read that is under way

  constructor(
    private readonly path: string,
    private readonly of: (page: P) => T[],
    private readonly pageSize = 500,
  ) {}

  /**
   * show reads the list with some filters from its beginning. While it is read again, the rows of before stay. A read with the same filters
   * that is under way goes on, however long it takes; one with other filters is aborted.
   */
  async show(query: Query, reading: Reading = {}): Promise<void> {
    const key = reading.key ?? JSON.stringify(query);
    if (key === this.#key && this.#abort) return;
    const before = key === this.#key ? this.rows.length : 0;
    const wanted = reading.wanted ?? Math.max(before, this.pageSize);
    if (key !== this.#key) {
      this.rows = [];
      this.complete = false;
      this.at = 0;
    }
    this.#key = key;
    this.#query = query;
    await this.#run(async (signal) => {
      const rows: T[] = [];
      let first: P | undefined;
      let cursor = '';
      do {
        const page = await api.get<P>(this.path, { ...query, limit: this.pageSize, cursor }, signal);
        first ??= page;
        rows.push(...this.of(page));
        cursor = page.next_cursor ?? '';
      } while (cursor !== '' && rows.length < wanted && !signal.aborted);
      if (signal.aborted) return;
      this.rows = rows;
      this.first = first;
      this.#continueAt(cursor);
      this.at = takenAt(first);
      this.error = undefined;
    });
  }

  /** more reads the next page. After an error it waits until the list was shown again. */
  async more(query: Query, key = JSON.stringify(query)): Promise<void> {
    if (this.#abort || this.complete || this.error || key !== this.#key) return;
    await this.#run(async (signal) => {
      const page = await api.get<P>(this.path, { ...this.#query, limit: this.pageSize, cursor: this.#cursor }, signal);
      if (signal.aborted) return;
      this.rows = this.rows.concat(this.of(page));
      this.#continueAt(page.next_cursor ?? '');
    });
  }

  #continueAt(cursor: string): void {
    this.#cursor = cursor;
    this.complete = cursor === '';
  }

  /** run reads something instead of what is being read. */
  async #run(read: (signal: AbortSignal) => Promise<void>): Promise<void> {
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.loading = true;
    try {
      await read(abort.signal);
    } catch (e) {
      if (!abort.signal.aborted) this.#failed(e);
    } finally {
      if (this.#abort === abort) {
        this.#abort = undefined;
        this.loading = false;
      }
    }
  }

  #failed(e: unknown): void {
    if (!(e instanceof ApiError)) throw e;
    this.error = e;
    session.failed(e);
  }
}
