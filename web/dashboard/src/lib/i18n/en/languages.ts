/** The texts of the page in English. */
export const languages = {} as const;
