import { expect, test } from 'vitest';

import { singular } from './en/singular';
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

test('a count of one has its own text', () => {
  expect(t('overview.sessions.note', { jobs: '1' })).toBe('1 job in flight');
  expect(t('overview.sessions.note', { jobs: '0' })).toBe('0 jobs in flight');
  expect(t('overview.sessions.note', { jobs: '1,001' })).toBe('1,001 jobs in flight');
  expect(t('nodes.bulk.drain.done', { changed: '1', failed: '2' })).toBe('1 node drained, 2 failed.');
  expect(t('nodes.bulk.drain.done', { changed: '2', failed: '1' })).toBe('2 nodes drained, 1 failed.');
});

test('texts for a count of one have no values that the others have not', () => {
  for (const [key, text] of Object.entries(singular))
    for (const name of names(text)) expect(names(catalogues.en[key as Key]), key).toContain(name);
});
