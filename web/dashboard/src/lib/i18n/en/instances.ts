/** The texts of the page in English. */
export const instances = {} as const;
