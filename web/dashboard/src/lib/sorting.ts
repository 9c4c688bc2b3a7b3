import type { Sorting } from './shapes';

/** sortingOf returns the order that a URL names. */
export function sortingOf(query: URLSearchParams, otherwise: string): Sorting {
  return { by: query.get('sort') ?? otherwise, descending: query.get('order') === 'desc' };
}

/** nextSorting returns the order after a click on a column: the other direction, or the natural one of another column. */
export function nextSorting(
  now: Sorting,
  by: string,
  largestFirst: readonly string[],
): Record<'sort' | 'order', string> {
  const descending = now.by === by ? !now.descending : largestFirst.includes(by);
  return { sort: by, order: descending ? 'desc' : 'asc' };
}
