import { flushSync, mount, unmount } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { router } from '../lib/router.svelte';
import SearchField from './SearchField.svelte';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  go('');
});

/** begin shows the field at a page, and types into it. */
function begin(hash: string, text: string): { field: ReturnType<typeof mount>; input: HTMLInputElement } {
  go(hash);
  const field = mount(SearchField, { target: document.body, props: { name: 'search', label: 'Search' } });
  flushSync();
  const input = document.querySelector('input');
  if (!input) throw new Error('there is no field');
  input.value = text;
  input.dispatchEvent(new Event('input', { bubbles: true }));
  return { field, input };
}

function go(hash: string): void {
  window.location.hash = hash;
  window.dispatchEvent(new HashChangeEvent('hashchange'));
}

test('what is typed becomes a filter of the page', async () => {
  const { field } = begin('#/nodes?state=ready', ' ta ');
  vi.advanceTimersByTime(300);
  expect(Object.fromEntries(router.current.query)).toEqual({ state: 'ready', search: 'ta' });
  await unmount(field);
});

test('what is typed does not follow to another page', async () => {
  const { field, input } = begin('#/nodes', 'ta');
  go('#/sessions');
  input.dispatchEvent(new Event('change', { bubbles: true })); // a browser reports it when the focused field is removed
  vi.advanceTimersByTime(300);
  expect(window.location.hash).toBe('#/sessions');
  await unmount(field);
});

test('a field that is gone changes nothing', async () => {
  const { field } = begin('#/nodes', 'ta');
  await unmount(field);
  vi.advanceTimersByTime(300);
  expect(window.location.hash).toBe('#/nodes');
});
