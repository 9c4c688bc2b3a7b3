import { ApiError } from './api';
import { t } from './i18n/index.svelte';

/** describe says in a sentence why a request did not succeed. */
export function describe(e: unknown): string {
  if (!(e instanceof ApiError)) return e instanceof Error ? e.message : String(e);
  if (e.unreachable || e.code === 'NOT_JSON') return t('error.unreachable') + ' ' + t('error.unreachable.next');
  if (e.code === 'SCHEDULER_DEPENDENCY_DOWN') return t('error.dependency');
  if (e.status === 403) return t('error.forbidden');
  return t('error.other', { code: e.code, detail: e.message });
}
