import type { TenantInfo, TenantRate, TenantUse } from './wire';

/** useOf returns how much of a limit is used, as a part of 1; undefined: there is no limit. */
export const useOf = (u: TenantUse): number | undefined => (u.max ? u.used / u.max : undefined);

/** rateOf returns how much of a rate is used, as a part of 1. More than 1: it must wait before it may use more. */
export const rateOf = (r: TenantRate | undefined): number | undefined =>
  r && r.limit > 0 ? Math.max(0, 1 - r.left / r.limit) : undefined;

/** pressure returns how close a tenant is to the closest of its limits, as a part of 1; -1: it has none. */
export function pressure(t: TenantInfo): number {
  return Math.max(
    -1,
    ...[useOf(t.in_flight), useOf(t.sessions), rateOf(t.dispatches), rateOf(t.audio_seconds)].map((p) => p ?? -1),
  );
}

/** sortTenants puts those that are closest to a limit first, and then those with most jobs in flight. */
export function sortTenants(rows: readonly TenantInfo[]): TenantInfo[] {
  return [...rows].sort(
    (a, b) =>
      pressure(b) - pressure(a) ||
      b.in_flight.used - a.in_flight.used ||
      (a.tenant_id ?? '').localeCompare(b.tenant_id ?? ''),
  );
}

/** refusedBy returns which limits have refused something, the most frequent first. */
export function refusedBy(t: TenantInfo): [string, number][] {
  return Object.entries(t.refusals)
    .filter(([, n]) => n > 0)
    .sort(([, a], [, b]) => b - a);
}
