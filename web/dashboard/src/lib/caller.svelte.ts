import { api, ApiError } from './api';
import type { Caller } from './wire';

const retryAfter = 2000;

/** Who uses the dashboard. While it is not known yet, state is "unknown". */
class Session {
  state = $state<'unknown' | 'anonymous' | 'known' | 'unreachable'>('unknown');
  caller = $state.raw<Caller | undefined>();

  /** The caller may change the state of the fleet. The server refuses it to all others. */
  get operates(): boolean {
    return this.caller?.role === 'operator';
  }

  /** follow finds out who uses the dashboard, again and again while the scheduler does not answer and the page is visible. */
  follow(): () => void {
    void this.load();
    const again = (): void => {
      if (this.state === 'unreachable' && !document.hidden) void this.load();
    };
    const timer = setInterval(again, retryAfter);
    document.addEventListener('visibilitychange', again);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', again);
    };
  }

  /** The caller sees all tenants, and with them what is about the whole fleet. */
  get allTenants(): boolean {
    return !this.caller?.tenant_id;
  }

  /** The caller sees objects of several tenants, which lists tell apart. It is known before anything was read. */
  get tenants(): boolean {
    return this.allTenants && this.caller?.multi_tenant === true;
  }

  async load(): Promise<void> {
    try {
      this.caller = await api.get<Caller>('v1/caller');
      this.state = 'known';
    } catch (e) {
      this.failed(e);
    }
  }

  /** failed is called with the error of a request: the login may have ended. */
  failed(e: unknown): void {
    if (e instanceof ApiError && (e.status === 401 || e.status === 403) && this.state !== 'known')
      this.state = 'anonymous';
    else if (e instanceof ApiError && e.status === 401) {
      this.caller = undefined;
      this.state = 'anonymous';
    } else if (this.state !== 'known') this.state = 'unreachable';
  }

  async login(key: string): Promise<void> {
    this.caller = await api.post<Caller>('login', { key });
    this.state = 'known';
  }

  async logout(): Promise<string | undefined> {
    const answer = await api.post<{ ended: boolean; warning?: string }>('logout');
    this.caller = undefined;
    this.state = 'anonymous';
    return answer.warning;
  }
}

export const session = new Session();
