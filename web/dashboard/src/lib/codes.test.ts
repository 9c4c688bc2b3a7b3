import { expect, test } from 'vitest';

import { codeText, eventText, eventTone, nodeTone, poolReason, roleText, stateText } from './codes';

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
  expect(eventTone({ kind: 'store_down' })).toBe('bad');
  expect(eventTone({ kind: 'node_registered' })).toBe('plain');
  expect(eventTone({ kind: 'coverage', ready: 0 })).toBe('bad');
  expect(eventTone({ kind: 'coverage', ready: 1, detail: 'no ready node' })).toBe('plain');
  expect(eventTone({ kind: 'coverage', detail: '4 more directions have no ready node' })).toBe('bad');
});

test('the reason of a pool is that of its nodes', () => {
  expect(poolReason('no_nodes')).toBe('no_nodes');
  expect(poolReason('full')).toBe('FULL');
  expect(poolReason('missing_core_asr_installed')).toBe('ASR_LANG_UNSUPPORTED');
  expect(poolReason('missing_core_tts_not_ready')).toBe('TTS_SERVICE_NOT_READY');
  expect(poolReason('something_new')).toBe('something_new');
});

test('roles', () => {
  expect(roleText('operator')).toBe('operator');
  expect(roleText('auditor')).toBe('auditor');
});
