import { expect, test } from 'vitest';

import {
  coverageOf,
  hasProblem,
  keyOf,
  matchesCoverage,
  matrixOf,
  neighbourOf,
  severityOf,
  sortDirections,
} from './directions';
import type { Direction } from './wire';

const direction = (src_lang: string, tgt_lang: string, change: Partial<Direction> = {}): Direction => ({
  src_lang,
  tgt_lang,
  nodes: 3,
  ready: 3,
  capacity: 10,
  in_flight: 4,
  free: 6,
  ...change,
});

test('coverage', () => {
  expect(coverageOf(direction('en', 'zh', { ready: 0 }))).toBe('none');
  expect(coverageOf(direction('en', 'zh', { ready: 1 }))).toBe('one');
  expect(coverageOf(direction('en', 'zh'))).toBe('enough');
});

test('refused and waiting requests are a problem', () => {
  expect(hasProblem(direction('en', 'zh', { jobs_5m: 408, refused_5m: 121 }))).toBe(true);
  expect(hasProblem(direction('en', 'zh', { waiting: 1 }))).toBe(true);
  expect(hasProblem(direction('en', 'zh', { jobs_5m: 408, refused_5m: 0, waiting: 0 }))).toBe(false);
  expect(hasProblem(direction('en', 'zh'))).toBe(false);
});

test('severity', () => {
  for (const [want, change] of [
    ['none', { ready: 0, capacity: 0, free: 0, in_flight: 0, waiting: 3 }],
    ['one', { ready: 1, refused_5m: 3 }],
    ['problem', { refused_5m: 1 }],
    ['problem', { in_flight: 10, free: 0, waiting: 1 }],
    ['load3', { in_flight: 9, free: 1 }],
    ['load3', { in_flight: 12, free: 0 }],
    ['load2', { in_flight: 5, free: 5 }],
    ['load1', { in_flight: 1, free: 9 }],
    ['idle', { in_flight: 0, free: 10, jobs_5m: 0, refused_5m: 0, waiting: 0 }],
    ['idle', { in_flight: 0, free: 0, capacity: 0 }],
  ] as const)
    expect(severityOf(direction('en', 'zh', change)), JSON.stringify(change)).toBe(want);
});

test('filters by coverage', () => {
  const idle = direction('en', 'zh', { ready: 1 });
  const refusing = direction('en', 'de', { ready: 0, refused_5m: 2 });
  const busy = direction('en', 'fr', { jobs_5m: 5 });
  const of = (filter: string): string[] =>
    [idle, refusing, busy].filter((d) => matchesCoverage(d, filter)).map((d) => d.tgt_lang);
  expect(of('')).toEqual(['zh', 'de', 'fr']);
  expect(of('toString')).toEqual(['zh', 'de', 'fr']);
  expect(of('none')).toEqual(['de']);
  expect(of('one')).toEqual(['zh']);
  expect(of('problem')).toEqual(['de']);
  expect(of('demand')).toEqual(['de', 'fr']);
});

test('the matrix has a row for each source and a column for each target', () => {
  const m = matrixOf([direction('zh', 'en'), direction('en', 'zh'), direction('en', 'de')], 10);
  expect(m.sources).toEqual(['en', 'zh']);
  expect(m.targets).toEqual(['de', 'en', 'zh']);
  expect(m.cells.get('en de')?.tgt_lang).toBe('de');
  expect(m.cells.get('zh de')).toBeUndefined();
  expect(m.left).toBe(0);
});

test('the languages of the worst directions come first, and load does not change their order', () => {
  const calm = ['de', 'en', 'fr', 'zh'].flatMap((src) =>
    ['de', 'en', 'fr', 'zh'].filter((tgt) => tgt !== src).map((tgt) => direction(src, tgt)),
  );
  const change = (changes: Record<string, Partial<ReturnType<typeof direction>>>) =>
    matrixOf(
      calm.map((d) => ({ ...d, ...changes[keyOf(d)] })),
      10,
    );
  const m = change({ 'zh fr': { ready: 0 }, 'fr en': { ready: 1 }, 'en de': { waiting: 2 }, 'de en': { waiting: 9 } });
  expect(m.sources).toEqual(['zh', 'fr', 'de', 'en']);
  expect(m.targets).toEqual(['fr', 'en', 'de', 'zh']);
  const busy = change({ 'zh fr': { in_flight: 10, free: 0 }, 'fr en': { in_flight: 0, free: 10, jobs_5m: 900 } });
  expect(busy.sources).toEqual(['de', 'en', 'fr', 'zh']);
  expect(busy.targets).toEqual(['de', 'en', 'fr', 'zh']);
});

test('keys move between the cells, past absent ones', () => {
  const m = matrixOf(
    [direction('de', 'en'), direction('de', 'zh'), direction('en', 'de'), direction('en', 'zh'), direction('zh', 'en')],
    10,
  );
  // targets: de en zh
  const to = (cell: string): (string | undefined)[] =>
    ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End'].map((key) => neighbourOf(m, cell, key));
  expect(to('en de')).toEqual([undefined, 'en zh', undefined, undefined, 'en de', 'en zh']);
  expect(to('de en')).toEqual([undefined, 'de zh', undefined, 'zh en', 'de en', 'de zh']);
  expect(to('en zh')).toEqual(['en de', undefined, 'de zh', undefined, 'en de', 'en zh']);
  expect(neighbourOf(m, 'de en', 'Enter')).toBeUndefined();
});

test('of too many languages those that matter stay', () => {
  const m = matrixOf(
    [
      direction('en', 'zh', { jobs_5m: 5 }),
      direction('en', 'fr', { jobs_5m: 100 }),
      direction('en', 'de', { jobs_5m: 0, refused_5m: 1, ready: 0 }),
    ],
    3,
  );
  expect(m.sources).toEqual(['en']);
  expect(m.targets).toEqual(['de', 'fr']);
  expect(m.left).toBe(1);
});

test('sorting', () => {
  const all = [
    direction('zh', 'en', { jobs_5m: 1 }),
    direction('en', 'zh', { jobs_5m: 1 }),
    direction('de', 'en', { jobs_5m: 7 }),
  ];
  const names = (by: string, descending: boolean): string[] => sortDirections(all, { by, descending }).map(keyOf);
  expect(names('demand', true)).toEqual(['de en', 'en zh', 'zh en']);
  expect(names('name', false)).toEqual(['de en', 'en zh', 'zh en']);
  expect(names('nothing', true)).toEqual(['zh en', 'en zh', 'de en']);
});
