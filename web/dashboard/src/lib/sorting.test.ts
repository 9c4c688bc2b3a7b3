import { expect, test } from 'vitest';

import { nextSorting, sortingOf } from './sorting';

test('the order of a URL', () => {
  expect(sortingOf(new URLSearchParams('sort=load&order=desc'), 'name')).toEqual({ by: 'load', descending: true });
  expect(sortingOf(new URLSearchParams(''), 'name')).toEqual({ by: 'name', descending: false });
});

test('a click turns the order around, or begins with what matters', () => {
  expect(nextSorting({ by: 'name', descending: false }, 'name', [])).toEqual({ sort: 'name', order: 'desc' });
  expect(nextSorting({ by: 'name', descending: false }, 'load', ['load'])).toEqual({ sort: 'load', order: 'desc' });
  expect(nextSorting({ by: 'load', descending: true }, 'name', ['load'])).toEqual({ sort: 'name', order: 'asc' });
});
