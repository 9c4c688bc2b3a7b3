import { t, type Key } from './i18n/index.svelte';
import { pageOf } from './pages';
import type { Location } from './router.svelte';

const parts = ['keys', 'revocations', 'audit'] as const; // of the configuration, by their addresses

/** titleOf returns the title of the window: what is shown, its page, and the product. */
export function titleOf(location: Location): string {
  const page = pageOf(location.parts);
  const names: string[] = [];
  if (page === undefined) names.push(t('page.unknown.title'));
  else if (page === 'search') names.push(location.query.get('q') ?? '', t('jump.page'));
  else {
    const object = location.parts[1] ?? '';
    const part = page === 'configuration' ? parts.find((p) => p === object) : undefined;
    names.push(part ? t(`configuration.tab.${part}`) : page === 'configuration' ? '' : object, t(`nav.${page}` as Key));
  }
  return [...names, t('app.short')].filter(Boolean).join(' · ');
}
