/** The pages of the dashboard, in the order of the navigation. */
export const pages = [
  'overview',
  'languages',
  'nodes',
  'sessions',
  'jobs',
  'instances',
  'pools',
  'configuration',
] as const;

export type PageName = (typeof pages)[number];
