import { expect, test } from 'vitest';

import { coverageOf, keyOf, matrixOf, sortDirections } from './directions';
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
