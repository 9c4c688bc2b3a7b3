import { api, ApiError, type Query } from './api';
import { ticking } from './clock.svelte';
import { session } from './caller.svelte';

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
  /** When the first page was read. */
  at = $state(0);
  complete = $state(false);
  loading = $state(false);
  error = $state.raw<ApiError | undefined>();
  #cursor = '';
  #key = '';
  #query: Query = {};
  #run = 0;

  constructor(
    private readonly path: string,
    private readonly of: (page: P) => T[],
    private readonly pageSize = 500,
  ) {}

  /** show reads the list with some filters from its beginning. While it is read again, the rows of before stay. */
  async show(query: Query, reading: Reading = {}): Promise<void> {
    const key = reading.key ?? JSON.stringify(query);
    const before = key === this.#key ? this.rows.length : 0;
    const wanted = reading.wanted ?? Math.max(before, this.pageSize);
    if (key !== this.#key) {
      this.rows = [];
      this.complete = false;
      this.at = 0;
    }
    this.#key = key;
    this.#query = query;
    const run = ++this.#run;
    this.loading = true;
    try {
      const rows: T[] = [];
      let first: P | undefined;
      let cursor = '';
      do {
        const page = await api.get<P>(this.path, { ...query, limit: this.pageSize, cursor });
        if (run !== this.#run) return;
        first ??= page;
        rows.push(...this.of(page));
        cursor = page.next_cursor ?? '';
      } while (cursor !== '' && rows.length < wanted);
      this.rows = rows;
      this.first = first;
      this.#cursor = cursor;
      this.complete = cursor === '';
      this.at = ticking.time();
      this.error = undefined;
    } catch (e) {
      if (run === this.#run) this.#failed(e);
    } finally {
      if (run === this.#run) this.loading = false;
    }
  }

  /** more reads the next page. After an error it waits until the list was shown again. */
  async more(query: Query, key = JSON.stringify(query)): Promise<void> {
    if (this.loading || this.complete || this.error || key !== this.#key) return;
    const run = this.#run;
    this.loading = true;
    try {
      const page = await api.get<P>(this.path, { ...this.#query, limit: this.pageSize, cursor: this.#cursor });
      if (run !== this.#run) return;
      this.rows = this.rows.concat(this.of(page));
      this.#cursor = page.next_cursor ?? '';
      this.complete = this.#cursor === '';
    } catch (e) {
      if (run === this.#run) this.#failed(e);
    } finally {
      if (run === this.#run) this.loading = false;
    }
  }

  #failed(e: unknown): void {
    if (!(e instanceof ApiError)) throw e;
    this.error = e;
    session.failed(e);
  }
}
