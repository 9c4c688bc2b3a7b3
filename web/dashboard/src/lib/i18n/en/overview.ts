/** The texts of the page in English. */
export const overview = {} as const;
