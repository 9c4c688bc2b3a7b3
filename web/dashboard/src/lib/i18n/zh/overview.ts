import type { overview as en } from '../en/overview';

/** The texts of the page in Chinese. */
export const overview: Record<keyof typeof en, string> = {};
