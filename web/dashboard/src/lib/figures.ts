import { number } from './format';

export { millis } from './format';

/** rate formats a number per second or minute: small ones have a decimal. */
export function rate(n: number): string {
  return number(n, n < 10 && !Number.isInteger(n) ? 1 : 0);
}
