import type { languages as en } from '../en/languages';

/** The texts of the page in Chinese. */
export const languages: Record<keyof typeof en, string> = {};
