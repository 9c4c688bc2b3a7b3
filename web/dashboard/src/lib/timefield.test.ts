import { expect, test } from 'vitest';

import { fromField, toField } from './timefield';

test('a time is the same after it was shown in a field', () => {
  for (const utc of [true, false]) {
    const ms = String(Date.UTC(2026, 10, 17, 12, 3, 7));
    expect(fromField(toField(ms, utc), utc)).toBe(ms);
  }
  expect(toField(String(Date.UTC(2026, 10, 17, 12, 3, 7)), true)).toBe('2026-11-17T12:03:07');
});

test('what is no time gives nothing', () => {
  expect(toField('yesterday', true)).toBe('');
  expect(toField('', true)).toBe('');
  expect(fromField('', true)).toBeUndefined();
});
