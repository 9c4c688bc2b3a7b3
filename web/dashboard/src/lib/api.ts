import { serverClock } from './clock.svelte';

/** The root of the API, relative to the page at …/dashboard/. */
const root = new URL('../', document.baseURI);

/** ApiError is an error that the scheduler has named, or that no answer came. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly field = '',
    /** In milliseconds; 0: unknown. */
    readonly retryAfter = 0,
  ) {
    super(detail);
    this.name = 'ApiError';
  }

  /** The scheduler could not be reached. */
  get unreachable(): boolean {
    return this.status === 0;
  }

  /** The answering instance does not have this part of the API. Where a path names an object, it may also be unknown. */
  get absent(): boolean {
    return this.status === 404 || this.status === 405;
  }
}

export type Query = Record<string, string | number | boolean | undefined>;

export function url(path: string, query: Query = {}): URL {
  const u = new URL(path.replace(/^\//, ''), root);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') u.searchParams.set(name, String(value));
  }
  return u;
}

interface WireError {
  error?: string;
  detail?: string;
  field?: string;
  retry_after_ms?: number;
}

async function request<T>(method: string, path: string, query: Query, body: unknown, signal?: AbortSignal): Promise<T> {
  const init: RequestInit = {
    method,
    credentials: 'same-origin',
    cache: 'no-store',
    headers: { Accept: 'application/json' },
  };
  if (signal) init.signal = signal;
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...init.headers, 'Content-Type': 'application/json' };
  }
  let answer: Response;
  let text: string;
  try {
    answer = await fetch(url(path, query), init);
    text = await answer.text(); // the connection may break in the body, too
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new ApiError(0, 'UNREACHABLE', '');
  }
  serverClock.learn(answer.headers.get('Date'));
  let data: unknown;
  try {
    data = text === '' ? undefined : JSON.parse(text);
  } catch {
    throw new ApiError(answer.status, 'NOT_JSON', ''); // a proxy has answered
  }
  if (!answer.ok) {
    const e = (data ?? {}) as WireError;
    throw new ApiError(answer.status, e.error ?? 'HTTP_' + answer.status, e.detail ?? '', e.field, e.retry_after_ms);
  }
  return data as T;
}

export const api = {
  get: <T>(path: string, query: Query = {}, signal?: AbortSignal) => request<T>('GET', path, query, undefined, signal),
  post: <T>(path: string, body?: unknown, query: Query = {}) => request<T>('POST', path, query, body),
  delete: <T>(path: string, query: Query = {}) => request<T>('DELETE', path, query, undefined),
};
