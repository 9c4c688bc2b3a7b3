/** Column is a column of a table. */
export interface Column {
  label: string;
  /** A track of the grid, such as 12ch or minmax(12ch, 1fr). */
  width: string;
  numeric?: boolean;
  /** The name by which the rows can be sorted. */
  sort?: string;
}

/** The width of a column of identifiers, which are shown with at most 18 characters of a monospaced font. */
export const idWidth = '146px';

/** Sorting is the order of a table. */
export interface Sorting {
  by: string;
  descending: boolean;
}

/** Line is a line of a chart. */
export interface Line {
  name: string;
  /** A custom property of the style sheet, such as --accent. */
  colour: string;
  /** The lengths of dashes and gaps, so that lines differ by more than their colour. Absent: the line is solid. */
  dash?: number[];
  values: (number | null)[];
}
