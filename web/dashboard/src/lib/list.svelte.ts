import { api, ApiError, type Query } from './api';
import { session } from './caller.svelte';

/** Page is a part of a list. */
interface Page {
  next_cursor?: string;
}

/** List is a list of the API that is read page by page, as far as it is scrolled. */
export class List<T, P extends Page> {
  rows = $state.raw<T[]>([]);
  /** When the first page was read. */
  at = $state(0);
  complete = $state(false);
  loading = $state(false);
  error = $state.raw<ApiError | undefined>();
  #cursor = '';
  #key = '';
  #run = 0;

  constructor(
    private readonly path: string,
    private readonly of: (page: P) => T[],
    private readonly pageSize = 500,
  ) {}

  /** show reads the list with some filters from its beginning. While it is read again, the rows of before stay. */
  async show(query: Query): Promise<void> {
    const key = JSON.stringify(query);
    const wanted = key === this.#key ? Math.max(this.rows.length, this.pageSize) : this.pageSize;
    if (key !== this.#key) this.rows = [];
    this.#key = key;
    const run = ++this.#run;
    this.loading = true;
    try {
      const rows: T[] = [];
      let cursor = '';
      do {
        const page = await api.get<P>(this.path, { ...query, limit: this.pageSize, cursor });
        if (run !== this.#run) return;
        rows.push(...this.of(page));
        cursor = page.next_cursor ?? '';
      } while (cursor !== '' && rows.length < wanted);
      this.rows = rows;
      this.#cursor = cursor;
      this.complete = cursor === '';
      this.at = Date.now();
      this.error = undefined;
    } catch (e) {
      if (run === this.#run) this.#failed(e);
    } finally {
      if (run === this.#run) this.loading = false;
    }
  }

  /** more reads the next page. */
  async more(query: Query): Promise<void> {
    if (this.loading || this.complete || JSON.stringify(query) !== this.#key) return;
    const run = this.#run;
    this.loading = true;
    try {
      const page = await api.get<P>(this.path, { ...query, limit: this.pageSize, cursor: this.#cursor });
      if (run !== this.#run) return;
      this.rows = [...this.rows, ...this.of(page)];
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
