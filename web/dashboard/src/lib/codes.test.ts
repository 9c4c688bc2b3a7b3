import { expect, test } from 'vitest';

import { codeText, eventText, eventTone, nodeTone, stateText } from './codes';

test('codes have a sentence, and unknown ones none', () => {
  expect(codeText('FULL')).toBe('all slots are taken');
  expect(codeText('SOMETHING_NEW')).toBeUndefined();
  expect(codeText('toString')).toBeUndefined();
});

test('unknown states and kinds are shown as they are', () => {
  expect(stateText('ready')).toBe('ready');
  expect(stateText('asleep')).toBe('asleep');
  expect(eventText('takeover')).toBe('Takeover');
  expect(eventText('node_promoted')).toBe('node_promoted');
});

test('tones', () => {
  expect(nodeTone('ejected')).toBe('bad');
  expect(nodeTone('asleep')).toBe('plain');
  expect(eventTone('store_down')).toBe('bad');
  expect(eventTone('node_registered')).toBe('plain');
});
