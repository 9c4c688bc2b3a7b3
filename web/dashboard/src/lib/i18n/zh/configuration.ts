import type { configuration as en } from '../en/configuration';

/** The texts of the page in Chinese. */
export const configuration: Record<keyof typeof en, string> = {};
