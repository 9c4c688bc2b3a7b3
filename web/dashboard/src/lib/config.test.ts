import { expect, test } from 'vitest';

import { groupSettings, objectPath, safeLinks } from './config';
import type { ConfigSetting } from './wire';

const setting = (section: string, key: string, change: Partial<ConfigSetting> = {}): ConfigSetting => ({
  section,
  key,
  value: '',
  default: true,
  reload: false,
  doc: '',
  ...change,
});

test('settings by table, by name or meaning, and only those that were changed', () => {
  const all = [
    setting('', 'store', { default: false }),
    setting('server', 'host', { doc: 'Address to listen on.' }),
    setting('server', 'port'),
    setting('', 'last'),
  ];
  const names = (search: string, changed: boolean): string[] =>
    groupSettings(all, search, changed).flatMap((g) => g.settings.map((s) => g.section + '/' + s.key));
  expect(names('', false)).toEqual(['/store', '/last', 'server/host', 'server/port']);
  expect(names('', true)).toEqual(['/store']);
  expect(names('LISTEN', false)).toEqual(['server/host']);
  expect(names('server.p', false)).toEqual(['server/port']);
});

test('links lead to web pages', () => {
  const links = ['https://a', 'HTTP://b', 'javascript:alert(1)', '/c'].map((url) => ({ name: url, url }));
  expect(safeLinks(links).map((l) => l.url)).toEqual(['https://a', 'HTTP://b']);
  expect(safeLinks(undefined)).toEqual([]);
});

test('objects of the audit log have pages', () => {
  expect(objectPath('node/gpu-1')).toEqual(['nodes', 'gpu-1']);
  expect(objectPath('session/a/b')).toEqual(['sessions', 'a/b']);
  expect(objectPath('key/admin')).toBeUndefined();
  expect(objectPath('toString/x')).toBeUndefined();
  expect(objectPath('node/')).toBeUndefined();
  expect(objectPath('')).toBeUndefined();
});
