import type { nodes as en } from '../en/nodes';

/** The texts of the page in Chinese. */
export const nodes: Record<keyof typeof en, string> = {};
