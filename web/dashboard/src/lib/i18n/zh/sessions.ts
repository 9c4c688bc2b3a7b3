import type { sessions as en } from '../en/sessions';

/** The texts of the page in Chinese. */
export const sessions: Record<keyof typeof en, string> = {};
