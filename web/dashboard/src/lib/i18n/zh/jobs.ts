import type { jobs as en } from '../en/jobs';

/** The texts of the page in Chinese. */
export const jobs: Record<keyof typeof en, string> = {};
