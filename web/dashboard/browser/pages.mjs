import assert from 'node:assert/strict';

import { given, run } from './harness.mjs';
import { visit } from './visit.mjs';

const cases = {};
for (const lang of ['en', 'zh']) {
  for (const theme of ['light', 'dark']) {
    cases[`every page, ${lang}, ${theme}`] = async (open) => {
      const tab = await open();
      await tab.goto('', { lang, theme });
      await tab.page.waitForSelector('input[type=password]');
      await tab.checkAxe('login');
      await tab.login(given.keys.operator);
      assert.equal(await tab.page.evaluate(() => document.documentElement.lang), lang);
      assert.equal(await tab.page.evaluate(() => document.documentElement.dataset.theme), theme);
      await visit(tab, `${lang} ${theme}`, async (_, name) => {
        await tab.checkAxe(name);
      });
    };
  }
}

for (const width of [320, 768, 3840]) {
  cases[`every page, ${width} pixels wide`] = async (open) => {
    const tab = await open();
    await tab.page.setViewport({ width, height: 900 });
    await tab.goto('');
    await tab.login(given.keys.operator);
    await visit(tab, `${width} px`, async (_, name) => {
      await tab.checkWidth(name);
      await tab.checkShift(name);
    });
  };
}

for (const role of ['viewer', 'acme']) {
  cases[`every page, as ${role}`] = async (open) => {
    const tab = await open();
    await tab.goto('');
    await tab.login(given.keys[role]);
    // What a tenant may not see is not asked for: a refusal would be in the console, which fails the test.
    await visit(tab, role, async (_, name) => {
      await tab.checkContent(name);
    });
    const links = await tab.page.$$eval('nav[aria-label=Pages] a', (all) => all.map((a) => a.textContent));
    assert.equal(links.includes('Instances'), role === 'viewer');
    assert.equal(links.includes('Pools'), role === 'viewer');
  };
}

cases['no text of speakers is in any answer'] = async (open) => {
  const tab = await open();
  await tab.goto('');
  const streams = await tab.streams();
  await tab.login(given.keys.operator);
  const bodies = [];
  tab.page.on('response', async (r) => {
    if (r.headers()['content-type']?.includes('json')) bodies.push(await r.text().catch(() => ''));
  });
  await visit(tab, 'text', async () => undefined);
  assert.ok(bodies.length > 10, 'answers were seen');
  for (const name of ['overview', 'events']) await streams.brought(name);
  for (const body of [...bodies, ...streams.messages.map((m) => m.data)])
    assert.ok(!given.said.some((s) => body.includes(s)), 'an answer has what somebody said');
};

await run(cases);
