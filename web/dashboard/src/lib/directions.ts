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

/** The severities of a direction, the worst first. They are few, so that a list by severity keeps its order while figures change a little. */
export const severities = ['none', 'one', 'problem', 'load3', 'load2', 'load1', 'idle'] as const;
export type Severity = (typeof severities)[number];

/** severityOf says how bad a direction is: without a ready node, with one, with requests that were refused or wait, or how much of it is in use. */
export function severityOf(d: Direction): Severity {
  const covered = coverageOf(d);
  if (covered !== 'enough') return covered;
  if (hasProblem(d)) return 'problem';
  if (d.in_flight === 0) return 'idle';
  const used = d.in_flight / d.capacity;
  return used >= 0.9 ? 'load3' : used >= 0.5 ? 'load2' : 'load1';
}

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

/** matrixOf arranges directions, the languages of the worst ones first. Of more languages than max, those of the worst and those in demand stay. */
export function matrixOf(directions: readonly Direction[], max: number): Matrix {
  const demand = new Map<string, number>();
  for (const d of directions)
    for (const lang of [d.src_lang, d.tgt_lang]) demand.set(lang, (demand.get(lang) ?? 0) + (d.jobs_5m ?? 0));
  const byDemand = (a: string, b: string): number => (demand.get(b) ?? 0) - (demand.get(a) ?? 0);
  const all = worstFirst(directions, (d) => [d.src_lang, d.tgt_lang], byDemand);
  const kept = new Set(all.slice(0, max));
  const shown = directions.filter((d) => kept.has(d.src_lang) && kept.has(d.tgt_lang));
  return {
    sources: worstFirst(shown, (d) => [d.src_lang]),
    targets: worstFirst(shown, (d) => [d.tgt_lang]),
    cells: new Map(shown.map((d) => [keyOf(d), d])),
    left: all.length - kept.size,
  };
}

/**
 * worstFirst returns languages of directions, those of the worst directions first, then by tie, then by name. How many slots are in use
 * changes from second to second, so it does not count.
 */
function worstFirst(
  directions: readonly Direction[],
  of: (d: Direction) => string[],
  tie: (a: string, b: string) => number = () => 0,
): string[] {
  const calm = severities.indexOf('load3');
  const worst = new Map<string, number>();
  for (const d of directions) {
    const severity = Math.min(calm, severities.indexOf(severityOf(d)));
    for (const lang of of(d)) worst.set(lang, Math.min(worst.get(lang) ?? calm, severity));
  }
  return [...worst.keys()].sort(
    (a, b) => (worst.get(a) ?? calm) - (worst.get(b) ?? calm) || tie(a, b) || a.localeCompare(b),
  );
}

/** neighbourOf returns the cell to which a key moves the focus, past those without a direction; undefined: the key does not move it. */
export function neighbourOf(m: Matrix, cell: string, key: string): string | undefined {
  const [src = '', tgt = ''] = cell.split(' ');
  const line = (
    key === 'ArrowUp' || key === 'ArrowDown' ? m.sources.map((s) => s + ' ' + tgt) : m.targets.map((t) => src + ' ' + t)
  ).filter((c) => m.cells.has(c));
  const at = line.indexOf(cell);
  switch (key) {
    case 'ArrowLeft':
    case 'ArrowUp':
      return line[at - 1];
    case 'ArrowRight':
    case 'ArrowDown':
      return line[at + 1];
    case 'Home':
      return line[0];
    case 'End':
      return line.at(-1);
    default:
      return undefined;
  }
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
