import type { instances as en } from '../en/instances';

/** The texts of the page in Chinese. */
export const instances: Record<keyof typeof en, string> = {};
