/** The texts of the page in English. */
export const sessions = {} as const;
