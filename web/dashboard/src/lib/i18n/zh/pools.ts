import type { pools as en } from '../en/pools';

/** The texts of the page in Chinese. */
export const pools: Record<keyof typeof en, string> = {};
