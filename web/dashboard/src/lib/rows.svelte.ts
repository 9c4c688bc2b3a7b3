import { api, ApiError, type Query } from './api';
import { takenAt } from './taken';
import { session } from './caller.svelte';

/** Slice is a part of a table that the server has filtered and sorted. */
export interface Slice<T> {
  matches: number;
  offset: number;
  rows: T[];
}

const part = 200; // rows of one request

/** Rows is a table of the server of which the parts in view are read. */
export class Rows<T, S extends Slice<T>> {
  count = $state(0);
  /** The answer that was read last. */
  last = $state.raw<S | undefined>();
  at = $state(0);
  error = $state.raw<ApiError | undefined>();
  #rows = $state.raw<(T | undefined)[]>([]);
  #key = '';
  #query: Query = {};
  #view: [first: number, last: number] = [0, part];
  #reading = new Set<number>(); // the offsets of the parts that are being read
  #abort = new AbortController();

  constructor(private readonly path: string) {}

  row(index: number): T | undefined {
    return this.#rows[index];
  }

  /**
   * show reads the rows in view with some filters. While they are read again, the rows of before stay. Reads with the same filters that are
   * under way go on, however long they take; those with other filters are aborted.
   */
  async show(query: Query): Promise<void> {
    const key = JSON.stringify(query);
    if (key !== this.#key) {
      this.#key = key;
      this.#query = query;
      this.#view = [0, part];
      this.#rows = [];
      this.#abort.abort();
      this.#abort = new AbortController();
      this.#reading = new Set();
    }
    await this.#readView(true);
  }

  /** view reads rows that came into view and were not read yet. */
  async view(first: number, last: number): Promise<void> {
    this.#view = [first, last];
    await this.#readView(false);
  }

  async #readView(again: boolean): Promise<void> {
    const [first, last] = this.#view;
    const offsets: number[] = [];
    for (let o = Math.floor(first / part) * part; o < Math.max(last, 1); o += part) offsets.push(o);
    await Promise.all(offsets.map((o) => this.#read(o, again)));
  }

  async #read(offset: number, again: boolean): Promise<void> {
    if (this.#reading.has(offset)) return;
    if (!again && (offset >= this.count || this.#rows[offset] !== undefined)) return;
    const { signal } = this.#abort;
    const reading = this.#reading;
    reading.add(offset);
    try {
      const slice = await api.get<S>(this.path, { ...this.#query, offset, limit: part }, signal);
      if (signal.aborted) return;
      const rows = this.#rows.slice(0, slice.matches);
      rows.length = slice.matches;
      slice.rows.forEach((r, i) => (rows[offset + i] = r));
      this.#rows = rows;
      this.count = slice.matches;
      this.last = slice;
      this.at = takenAt(slice);
      this.error = undefined;
    } catch (e) {
      if (signal.aborted) return;
      if (!(e instanceof ApiError)) throw e;
      this.error = e;
      session.failed(e);
    } finally {
      reading.delete(offset);
    }
  }
}
