/** The pages of the dashboard, in the order of the navigation. */
export const pages = [
  'overview',
  'languages',
  'nodes',
  'sessions',
  'jobs',
  'waiting',
  'tenants',
  'instances',
  'pools',
  'configuration',
] as const;

export type PageName = (typeof pages)[number];

/** The pages that are about the whole fleet: what they read is refused to callers that see one tenant. */
const fleetPages: readonly PageName[] = ['instances', 'pools'];

/** visiblePages returns the pages that a caller may see. */
export function visiblePages(allTenants: boolean): readonly PageName[] {
  return allTenants ? pages : pages.filter((p) => !fleetPages.includes(p));
}

/** The parts of the configuration page; '' is the settings. */
export type ConfigurationPart = '' | 'keys' | 'revocations' | 'audit';

/** configurationParts returns the parts of the configuration page that a caller may see. */
export function configurationParts(operates: boolean, allTenants: boolean): ConfigurationPart[] {
  return [...(operates ? (['', 'keys'] as const) : []), ...(allTenants ? (['revocations'] as const) : []), 'audit'];
}

/** pageOf returns the page that a path names; undefined: there is none. 'search' is a page that is not in the navigation. */
export function pageOf(parts: readonly string[]): PageName | 'search' | undefined {
  const [name] = parts;
  if (name === undefined) return 'overview';
  return name === 'search' ? name : pages.find((p) => p === name);
}
