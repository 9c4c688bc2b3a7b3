/** The texts of the page in English. */
export const configuration = {} as const;
