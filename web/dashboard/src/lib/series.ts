/** Point is a value of a series that was taken at some time. */
interface Point {
  at_ms: number;
}

/** merge adds points to a series: in the order of time, each time once, and nothing older than keep milliseconds before the newest. */
export function merge<T extends Point>(series: readonly T[], more: readonly T[], keep: number): T[] {
  const last = series.at(-1)?.at_ms ?? 0;
  const fresh = more.filter((p) => p.at_ms > last).sort((a, b) => a.at_ms - b.at_ms);
  const all = [...series, ...fresh];
  const oldest = (all.at(-1)?.at_ms ?? 0) - keep;
  return all.filter((p) => p.at_ms > oldest);
}

/** within returns the points of the last span milliseconds before the newest. */
export function within<T extends Point>(series: readonly T[], span: number): T[] {
  const oldest = (series.at(-1)?.at_ms ?? 0) - span;
  return series.filter((p) => p.at_ms > oldest);
}

/** Plotted is a series as a chart wants it: undefined stands where a line is interrupted. */
export interface Plotted<T> {
  times: number[];
  points: (T | undefined)[];
}

/** interrupted adds a hole wherever points are missing, so that a chart draws no line through a time of which nothing is known. */
export function interrupted<T extends Point>(series: readonly T[], interval: number): Plotted<T> {
  const plotted: Plotted<T> = { times: [], points: [] };
  let before = 0;
  for (const p of series) {
    if (before > 0 && p.at_ms - before > 2.5 * interval) {
      plotted.times.push(before + interval);
      plotted.points.push(undefined);
    }
    plotted.times.push(p.at_ms);
    plotted.points.push(p);
    before = p.at_ms;
  }
  return plotted;
}

/** values picks a value of each point; null: there is none. */
export function values<T>(plotted: Plotted<T>, pick: (point: T) => number | undefined): (number | null)[] {
  return plotted.points.map((p) => (p === undefined ? null : (pick(p) ?? null)));
}

/** perSecond turns a count of some milliseconds into a rate. */
export function perSecond(count: number, ms: number): number {
  return ms > 0 ? (count * 1000) / ms : 0;
}

/** perMinute returns the rate of a count in the minute before each point, so that rare things do not look like spikes. */
export function perMinute<T extends Point & { span_ms: number }>(
  series: readonly T[],
  pick: (point: T) => number | undefined,
): number[] {
  let first = 0;
  let sum = 0;
  let ms = 0;
  return series.map((p) => {
    sum += pick(p) ?? 0;
    ms += p.span_ms;
    for (let old = series[first]; old && old.at_ms <= p.at_ms - 60_000; old = series[++first]) {
      sum -= pick(old) ?? 0;
      ms -= old.span_ms;
    }
    return perSecond(sum, ms) * 60;
  });
}

/** total adds the counts by name of some points, the largest first. */
export function total(counts: (Record<string, number> | undefined)[]): [name: string, count: number][] {
  const sums = new Map<string, number>();
  for (const c of counts) {
    for (const [name, count] of Object.entries(c ?? {})) sums.set(name, (sums.get(name) ?? 0) + count);
  }
  return [...sums].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

/** The ranges of time that charts show, in minutes. */
export const ranges = [5, 15, 60] as const;

/** rangeOf returns the range that a URL names, in minutes. */
export function rangeOf(text: string | null): number {
  return ranges.find((r) => String(r) === text) ?? 15;
}
