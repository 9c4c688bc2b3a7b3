const steps = [1, 2, 5];

/** Increments of an axis, from a tenth to a billion, in plain numbers. */
const candidates = Array.from({ length: 11 }, (_, power) => steps.map((s) => s * 10 ** (power - 1))).flat();

/**
 * increments returns the distances between two ticks of an axis that its labels can tell apart: a format without decimals has whole steps.
 * An axis of counts never shows “0, 1, 1”.
 */
export function increments(format: (value: number) => string): number[] {
  return candidates.filter((step) => new Set([0, 1, 2, 3].map((n) => format(n * step))).size === 4);
}
