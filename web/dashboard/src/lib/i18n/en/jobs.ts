/** The texts of the page in English. */
export const jobs = {} as const;
