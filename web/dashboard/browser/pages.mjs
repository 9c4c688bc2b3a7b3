import assert from 'node:assert/strict';

import { given, run } from './harness.mjs';
import { visit } from './visit.mjs';

const cases = {};
// The theme changes no text, and the language no color: two of the four combinations show each.
for (const [lang, theme] of [
  ['en', 'light'],
  ['zh', 'dark'],
]) {
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

cases['nodes that were refused'] = async (open) => {
  const refused = await fetch(new URL('/v1/node/register', given.url), { method: 'POST', body: '{}' });
  assert.equal(refused.status, 401);
  for (const role of ['operator', 'viewer']) {
    const tab = await open();
    await tab.goto('');
    await tab.login(given.keys[role]);
    await tab.goto('nodes', { lang: 'en' });
    await tab.page.waitForFunction(() => document.querySelector('[aria-label="Nodes"] [role=row] a'));
    if (role === 'operator') {
      await tab.page.waitForFunction(() =>
        /127.0.0.1.*no valid credential/.test(
          document.querySelector('[aria-label="Nodes that were refused"]')?.textContent,
        ),
      );
      await tab.checkAxe('refused nodes');
    } else {
      assert.equal(await tab.page.$('[aria-label="Nodes that were refused"]'), null);
    }
  }
};

cases['who waits, and how tenants share'] = async (open) => {
  for (const role of ['operator', 'acme']) {
    const tab = await open();
    await tab.goto('');
    await tab.login(given.keys[role]);
    await tab.goto('waiting', { lang: 'en' });
    await tab.page.waitForFunction(() => document.querySelector('[aria-label="Requests, the oldest first"] tbody tr'));
    const text = () => tab.page.$eval('main', (m) => m.textContent);
    if (role === 'operator') {
      await tab.page.waitForFunction(() => {
        const shares = document.querySelector('[aria-label="Tenants and their shares"]')?.textContent ?? '';
        return /acme.*, part \d+.*beta.*, part \d+/s.test(shares);
      });
      await tab.goto('waiting?tenant_id=beta');
      await tab.page.waitForFunction(() =>
        document.querySelector('[aria-label="Requests, the oldest first"] tbody tr'),
      );
      assert.ok(!(await text()).includes('acme'), 'one tenant was chosen');
    } else {
      assert.ok(!/beta|part \d/.test(await text()), 'a tenant sees something of another one');
    }
    await tab.goto('tenants');
    await tab.page.waitForFunction(() => document.querySelector('[aria-label="Tenants and their limits"] tbody tr'));
    assert.match(await text(), /acme.*\d+ \/ 50.*\d+ \/ 20/s);
    assert.equal((await text()).includes('beta'), role === 'operator');
  }
};

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
