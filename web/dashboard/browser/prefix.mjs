import assert from 'node:assert/strict';

import { given, run } from './harness.mjs';
import { visit } from './visit.mjs';

await run({
  'every page below a prefix': async (open) => {
    const tab = await open();
    await tab.page.goto(given.url + '/dashboard');
    await tab.login(given.keys.operator);
    const [cookie] = await tab.context.cookies();
    assert.equal(cookie.path, new URL(given.url).pathname, 'the cookie is for the prefix only');
    assert.ok(cookie.httpOnly && cookie.sameSite === 'Strict', JSON.stringify(cookie));
    await visit(tab, 'prefix', async () => undefined);
    await tab.sees('Live', '[role=status]');
    await tab.press('Log out', 'header');
    await tab.page.waitForSelector('input[type=password]');
    assert.deepEqual(await tab.context.cookies(), []);
  },
});
