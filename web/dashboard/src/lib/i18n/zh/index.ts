import type { Catalogue } from '../en';
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

/** All texts of the dashboard in Chinese. */
export const zh: Catalogue = {
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
};
