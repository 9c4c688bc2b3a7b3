import { serverClock } from './clock.svelte';

/**
 * takenAt returns the time of what an answer says, on the clock of the server. Most answers are of now. One that was computed earlier, such as
 * the statistics, says how old it is; the servers of the store were asked at a time that its answer has. Only ages are used, and differences
 * of times of one instance: the clocks of instances differ.
 */
export function takenAt(answer: unknown): number {
  return serverClock.time() - ageOf(answer);
}

function ageOf(answer: unknown): number {
  if (typeof answer !== 'object' || answer === null) return 0;
  const known = answer as { age_ms?: unknown; generated_ms?: unknown; checked_ms?: unknown };
  if (typeof known.age_ms === 'number') return Math.max(0, known.age_ms);
  if (typeof known.generated_ms === 'number' && typeof known.checked_ms === 'number' && known.checked_ms > 0)
    return Math.max(0, known.generated_ms - known.checked_ms);
  return 0;
}
