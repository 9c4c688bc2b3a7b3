import { t } from './i18n/index.svelte';
import type { TimeMode } from './preferences.svelte';

/** number formats a number with grouping, in tabular figures: 12,345. */
export function number(n: number, digits = 0): string {
  return n.toLocaleString('en-US', { maximumFractionDigits: digits, minimumFractionDigits: digits });
}

/** share formats a part of 1 as percent: 12.3 %. */
export function share(part: number): string {
  if (!Number.isFinite(part)) return '–';
  const percent = part * 100;
  return number(percent, percent !== 0 && percent < 9.95 ? 1 : 0) + ' %';
}

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
] as const;

/** millis formats a short duration: below 10 ms with a decimal. */
export function millis(ms: number): string {
  return ms < 10 && !Number.isInteger(ms) ? t('unit.ms', { n: number(ms, 1) }) : duration(ms);
}

/** duration formats milliseconds with at most two units: 1 h 5 min, 42 s, 4.2 s, 350 ms. */
export function duration(ms: number): string {
  const abs = Math.abs(ms);
  if (abs < 1000) return t('unit.ms', { n: Math.round(abs) });
  if (abs < 10_000) return t('unit.s', { n: number(Math.floor(abs / 100) / 10, 1) });
  return age(abs);
}

/** age formats milliseconds in whole seconds, with at most two units: 1 h 5 min, 42 s, 4 s. */
export function age(ms: number): string {
  let rest = Math.floor(Math.abs(ms) / 1000) * 1000;
  const parts: string[] = [];
  for (const [unit, size] of units) {
    const n = Math.floor(rest / size);
    if (n > 0 && parts.length < 2) parts.push(t(`unit.${unit}`, { n }));
    else if (parts.length > 0) break;
    rest -= n * size;
  }
  return parts.join(' ') || t('unit.s', { n: 0 });
}

const pad = (n: number): string => String(n).padStart(2, '0');

/** ago says how long ago something was, or in which time it will be. */
export function ago(ms: number): string {
  if (Math.abs(ms) < 1500) return t('age.now');
  return t(ms > 0 ? 'age' : 'age.future', { age: age(ms) });
}

/** clock formats a time of a day, with the date if it is not today: 14:03:07, 11-16 14:03:07. */
export function clock(ms: number, mode: Exclude<TimeMode, 'relative'>, now = Date.now()): string {
  const of = (at: number): { date: string; time: string } => {
    const d = new Date(mode === 'utc' ? at : at - new Date(at).getTimezoneOffset() * 60_000);
    return {
      date: pad(d.getUTCMonth() + 1) + '-' + pad(d.getUTCDate()),
      time: pad(d.getUTCHours()) + ':' + pad(d.getUTCMinutes()) + ':' + pad(d.getUTCSeconds()),
    };
  };
  const at = of(ms);
  return (at.date === of(now).date ? '' : at.date + ' ') + at.time + (mode === 'utc' ? 'Z' : '');
}

/** bytes formats a size: 512 B, 12.3 kB, 1.5 GB. */
export function bytes(n: number): string {
  const names = ['B', 'kB', 'MB', 'GB', 'TB'];
  let size = n;
  let unit = 0;
  while (size >= 1000 && unit < names.length - 1) {
    size /= 1000;
    unit++;
  }
  return number(size, unit > 0 && size < 99.95 ? 1 : 0) + ' ' + (names[unit] ?? '');
}

/** shortId leaves out the middle of a long identifier: the beginning says what it is, and the end tells it from others. */
export function shortId(id: string, longest = 18): string {
  if (id.length <= longest) return id;
  const end = 6;
  return id.slice(0, longest - end - 1) + '…' + id.slice(-end);
}
