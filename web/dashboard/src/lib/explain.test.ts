import { expect, test } from 'vitest';

import { emptyQuestion, explainBody } from './explain';

const sent = (change: Partial<typeof emptyQuestion>): unknown =>
  JSON.parse(JSON.stringify(explainBody({ ...emptyQuestion, src: 'en', tgt: ' zh ', ...change })));

test('what is empty is not sent', () => {
  expect(sent({})).toEqual({ session_id: 'dashboard-explain', src_lang: 'en', tgt_lang: 'zh', options: {} });
  expect(sent({ strict: true })).toEqual({
    session_id: 'dashboard-explain',
    src_lang: 'en',
    tgt_lang: 'zh',
    options: {},
  });
});

test('requirements and preferences', () => {
  expect(
    sent({
      speech: true,
      tenant: 'acme',
      session: 's-1',
      node: 'gpu-1',
      strict: true,
      region: 'eu',
      preferredRegion: 'us',
      services: 'asr-large@2.1, nmt@>=3,<4，tts',
      features: 'a b',
    }),
  ).toEqual({
    session_id: 's-1',
    src_lang: 'en',
    tgt_lang: 'zh',
    tenant_id: 'acme',
    options: {
      require_tts: true,
      preferred_node_id: 'gpu-1',
      strict: true,
      region: 'eu',
      preferred_region: 'us',
      required_services: ['asr-large@2.1', 'nmt@>=3,<4', 'tts'],
      features: ['a', 'b'],
    },
  });
});
