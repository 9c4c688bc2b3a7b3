import { api, ApiError } from './api';
import { appendEntries } from './audit';
import { session } from './caller.svelte';
import { serverClock } from './clock.svelte';
import type { AuditEntry, AuditList } from './wire';

const part = 1000; // entries of one request
const keep = 10_000; // as many as the server keeps
const beginning = '0-0'; // before the first entry

/**
 * AuditLog is the audit log. It is read once from its beginning, then only what was added: what people do is rare among what nodes and
 * sessions do, so that the newest entries alone may have nothing of it.
 */
export class AuditLog {
  entries = $state.raw<AuditEntry[]>([]);
  at = $state(0);
  error = $state.raw<ApiError | undefined>();
  #next = beginning;
  #reading = false;

  async read(): Promise<void> {
    if (this.#reading) return;
    this.#reading = true;
    try {
      let entries = this.entries;
      let page: AuditList;
      do {
        page = await api.get<AuditList>('v1/audit', { after: this.#next, limit: part });
        entries = appendEntries(entries, page.entries, keep);
        this.#next = page.next ?? this.#next;
      } while (page.entries.length === part);
      this.entries = entries;
      this.at = serverClock.time();
      this.error = undefined;
    } catch (e) {
      if (!(e instanceof ApiError)) throw e;
      this.#next = beginning; // the store may have been emptied; entries that are read twice are dropped
      this.error = e;
      session.failed(e);
    } finally {
      this.#reading = false;
    }
  }
}
