/** The texts of the page in English. */
export const nodes = {} as const;
