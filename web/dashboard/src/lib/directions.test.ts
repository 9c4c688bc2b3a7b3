import { expect, test } from 'vitest';

import { coverageOf, hasProblem, keyOf, matchesCoverage, matrixOf, sortDirections } from './directions';
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
