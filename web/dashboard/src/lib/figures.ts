import { duration, number } from './format';

/** rate formats a number per second or minute: small ones have a decimal. */
export function rate(n: number): string {
  return number(n, n < 10 && !Number.isInteger(n) ? 1 : 0);
}

/** millis formats a short duration: below 10 ms with a decimal. */
export function millis(ms: number): string {
  return ms < 10 && !Number.isInteger(ms) ? number(ms, 1) + ' ms' : duration(ms);
}
