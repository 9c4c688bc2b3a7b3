/** Column is a column of a table. */
export interface Column {
  label: string;
  /** A track of the grid, such as 12ch or 1fr. */
  width: string;
  numeric?: boolean;
}

/** Line is a line of a chart. */
export interface Line {
  name: string;
  /** A custom property of the style sheet, such as --accent. */
  colour: string;
  values: (number | null)[];
}
