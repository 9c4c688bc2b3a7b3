/** The texts of the page in English. */
export const pools = {} as const;
