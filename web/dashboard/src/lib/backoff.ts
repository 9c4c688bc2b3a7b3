/** The first and the longest delay before another attempt, in milliseconds. */
const first = 1000;
const longest = 15_000;

/**
 * backoff returns the delay before another attempt after some that failed: it doubles from 1 s to 15 s. A random half of it is jitter, so
 * that the pages that lost the same instance do not come back at the same time.
 */
export function backoff(failed: number, random: () => number = Math.random): number {
  const delay = Math.min(longest, first * 2 ** Math.min(failed, 10));
  return Math.round(delay / 2 + (delay / 2) * random());
}
