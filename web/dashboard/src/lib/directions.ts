import type { Direction } from './wire';
import type { Sorting } from './shapes';

/** Coverage says how many ready nodes a direction has: none, one, or enough. */
export type Coverage = 'none' | 'one' | 'enough';

export function coverageOf(d: Direction): Coverage {
  if (d.ready === 0) return 'none';
  return d.ready === 1 ? 'one' : 'enough';
}

/** hasProblem reports whether requests of a direction were refused in the last minutes, or wait for a slot now. */
export const hasProblem = (d: Direction): boolean => (d.refused_5m ?? 0) + (d.waiting ?? 0) > 0;

/** The filters by coverage and demand. */
export const coverageFilters = ['none', 'one', 'problem', 'demand'] as const;

/** matchesCoverage reports whether a direction matches such a filter. An empty or unknown one matches all. */
export function matchesCoverage(d: Direction, filter: string): boolean {
  switch (filter) {
    case 'none':
    case 'one':
      return coverageOf(d) === filter;
    case 'problem':
      return hasProblem(d);
    case 'demand':
      return (d.jobs_5m ?? 0) > 0 || hasProblem(d);
    default:
      return true;
  }
}

/** keyOf identifies a direction. */
export const keyOf = (d: { src_lang: string; tgt_lang: string }): string => d.src_lang + ' ' + d.tgt_lang;

/** Matrix has the directions by source and target. Languages without any are left out. */
export interface Matrix {
  sources: string[];
  targets: string[];
  cells: Map<string, Direction>;
  /** How many languages were left out because there are too many. */
  left: number;
}

/** matrixOf arranges directions. Of more languages than max, those with the most demand and those without enough nodes stay. */
export function matrixOf(directions: readonly Direction[], max: number): Matrix {
  const weight = new Map<string, number>();
  for (const d of directions) {
    // A direction whose requests are refused, or that is in demand and has too few nodes, matters more than any other.
    const w =
      (d.jobs_5m ?? 0) + 1000 * (d.refused_5m ?? 0) + (coverageOf(d) === 'enough' ? 0 : 0.5 + 1000 * (d.jobs_5m ?? 0));
    for (const lang of [d.src_lang, d.tgt_lang]) weight.set(lang, (weight.get(lang) ?? 0) + w);
  }
  const all = [...weight.keys()].sort();
  const kept = new Set(
    all.length <= max
      ? all
      : all.sort((a, b) => (weight.get(b) ?? 0) - (weight.get(a) ?? 0) || a.localeCompare(b)).slice(0, max),
  );
  const shown = directions.filter((d) => kept.has(d.src_lang) && kept.has(d.tgt_lang));
  return {
    sources: [...new Set(shown.map((d) => d.src_lang))].sort(),
    targets: [...new Set(shown.map((d) => d.tgt_lang))].sort(),
    cells: new Map(shown.map((d) => [keyOf(d), d])),
    left: all.length - kept.size,
  };
}

const values: Record<string, (d: Direction) => number | string> = {
  name: (d) => keyOf(d),
  ready: (d) => d.ready,
  free: (d) => d.free,
  demand: (d) => d.jobs_5m ?? -1,
  waiting: (d) => d.waiting ?? -1,
  wait: (d) => d.wait_p95_ms ?? -1,
  refused: (d) => d.refused_5m ?? -1,
};

/** sortDirections sorts directions by a column; those that are equal by their names. */
export function sortDirections(directions: readonly Direction[], sorting: Sorting): Direction[] {
  const value = values[sorting.by] ?? keyOf;
  const sign = sorting.descending ? -1 : 1;
  return [...directions].sort((a, b) => {
    const x = value(a);
    const y = value(b);
    if (x !== y) return x < y ? -sign : sign;
    return keyOf(a).localeCompare(keyOf(b));
  });
}
