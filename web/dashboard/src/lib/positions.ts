/** Where tables were scrolled to, by the visit of the page. It is forgotten when the page is closed. */
const positions = new Map<string, number>();
const limit = 200; // visits

/** savePosition remembers where a table is scrolled to. */
export function savePosition(table: string, top: number): void {
  positions.delete(table); // the one that was used last is the last
  if (top > 0) positions.set(table, top);
  const oldest = positions.keys().next();
  if (positions.size > limit && !oldest.done) positions.delete(oldest.value);
}

/** savedPosition returns where a table was scrolled to; 0: nowhere. */
export function savedPosition(table: string): number {
  return positions.get(table) ?? 0;
}
