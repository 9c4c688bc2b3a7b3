import { expect, test } from 'vitest';

import { catalogues, t, type Key } from './index.svelte';

const names = (text: string): string[] => [...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1] ?? '').sort();

test('every catalogue has every text, with the same values', () => {
  const keys = Object.keys(catalogues.en) as Key[];
  expect(Object.keys(catalogues.zh).sort()).toEqual([...keys].sort());
  for (const key of keys) {
    expect(catalogues.zh[key].trim(), key).not.toBe('');
    expect(names(catalogues.zh[key]), key).toEqual(names(catalogues.en[key]));
  }
});

test('values are filled in', () => {
  expect(t('error.other', { code: 'NOT_FOUND', detail: 'none' })).toBe('NOT_FOUND: none');
});
