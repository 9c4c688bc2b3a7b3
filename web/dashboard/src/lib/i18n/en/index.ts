import { codes } from './codes';
import { common } from './common';
import { configuration } from './configuration';
import { instances } from './instances';
import { jobs } from './jobs';
import { languages } from './languages';
import { nodes } from './nodes';
import { overview } from './overview';
import { pools } from './pools';
import { sessions } from './sessions';
import { waiting } from './waiting';

/** All texts of the dashboard in English. The other catalogues have the same keys, which the compiler checks. */
export const en = {
  ...common,
  ...codes,
  ...overview,
  ...languages,
  ...nodes,
  ...sessions,
  ...jobs,
  ...waiting,
  ...instances,
  ...pools,
  ...configuration,
} as const;

export type Key = keyof typeof en;
export type Catalogue = Record<Key, string>;
