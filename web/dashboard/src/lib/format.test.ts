import { expect, test } from 'vitest';

import { age, ago, bytes, clock, duration, millis, number, share, shortId } from './format';
import { preferences } from './preferences.svelte';

test('durations have at most two units', () => {
  for (const [ms, want] of [
    [0, '0 ms'],
    [999, '999 ms'],
    [1049, '1.0 s'],
    [9999, '9.9 s'],
    [10_000, '10 s'],
    [61_000, '1 min 1 s'],
    [3_600_000, '1 h'],
    [3_900_000, '1 h 5 min'],
    [90_061_000, '1 d 1 h'],
    [-61_000, '1 min 1 s'],
  ] as const) {
    expect(duration(ms)).toBe(want);
  }
});

test('ages have whole seconds', () => {
  expect(age(1000)).toBe('1 s');
  expect(age(9999)).toBe('9 s');
  expect(age(83_000)).toBe('1 min 23 s');
  expect(age(400)).toBe('0 s');
  expect(ago(400)).toBe('just now');
  expect(ago(4200)).toBe('4 s ago');
  expect(ago(-4200)).toBe('in 4 s');
});

test('short durations have a decimal', () => {
  expect(millis(0.53)).toBe('0.5 ms');
  expect(millis(5)).toBe('5 ms');
  expect(millis(1500)).toBe('1.5 s');
});

test('units are those of the language', () => {
  preferences.lang = 'zh';
  try {
    expect(ago(83_000)).toBe('1 分 23 秒前');
    expect(duration(350)).toBe('350 毫秒');
  } finally {
    preferences.lang = 'en';
  }
});

test('numbers and shares', () => {
  expect(number(12345.6)).toBe('12,346');
  expect(share(0.0123)).toBe('1.2 %');
  expect(share(0.5)).toBe('50 %');
  expect(share(0)).toBe('0 %');
  expect(share(Number.NaN)).toBe('–');
});

test('a time has a date unless it is of today', () => {
  const now = Date.UTC(2026, 10, 17, 12, 0, 0);
  expect(clock(Date.UTC(2026, 10, 17, 9, 5, 7), 'utc', now)).toBe('09:05:07Z');
  expect(clock(Date.UTC(2026, 10, 16, 23, 59, 59), 'utc', now)).toBe('11-16 23:59:59Z');
});

test('sizes have one decimal below 100', () => {
  for (const [n, want] of [
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.0 kB'],
    [123_456, '123 kB'],
    [1_500_000_000, '1.5 GB'],
  ] as const) {
    expect(bytes(n)).toBe(want);
  }
});

test('a long identifier keeps its beginning and its end', () => {
  expect(shortId('job-1')).toBe('job-1');
  expect(shortId('session-01a1e9ac-9dfa-7e1a-a596-4e72fe2ed797')).toBe('session-01a…2ed797');
  expect(shortId('0123456789012345678901')).toHaveLength(18);
});
