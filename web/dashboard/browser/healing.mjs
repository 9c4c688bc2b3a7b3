import assert from 'node:assert/strict';

import { ask, given, run } from './harness.mjs';

/** loads counts how often the page itself is loaded: it must heal without that. */
function loads(tab) {
  let n = 0;
  tab.page.on('domcontentloaded', () => n++);
  return () => n;
}

async function begin(open) {
  const tab = await open();
  await tab.goto('overview');
  await tab.login(given.keys.operator);
  await tab.sees('Live', '[role=status]');
  return tab;
}

await run({
  'an instance is killed': async (open) => {
    const tab = await begin(open);
    const before = loads(tab);
    const instance = await tab.text('#instance');
    tab.tolerant = true;
    await ask('kill-instance', { instance });
    await tab.page.waitForFunction(
      (old) => (document.querySelector('#instance')?.textContent ?? old) !== old,
      {},
      instance,
    );
    await tab.sees('Live', '[role=status]');
    await tab.goto('instances');
    await tab.sees(instance); // as gone, and then as taken over
    await ask('start-instance', { instance });
    await tab.page.waitForFunction(
      () => document.querySelector('main table')?.textContent.match(/present/g)?.length === 3,
    );
    assert.equal(before(), 0, 'the page was loaded again');
  },
  'Redis is away': async (open) => {
    const tab = await begin(open);
    const before = loads(tab);
    tab.tolerant = true;
    await ask('stop-redis');
    await tab.sees('The store (Redis) cannot be used', '[role=alert]');
    await tab.sees('No store', '[role=status]');
    await tab.page.waitForFunction(() => document.title.startsWith('Down: the store cannot be used'));
    await tab.page.waitForSelector('link[rel=icon][href$="icon-down.svg"]');
    await tab.sees('the store cannot be used', 'main');
    assert.ok(await tab.page.$('main.old'), 'the figures look as if they were new');
    await tab.checkAxe('an outage of Redis');
    await tab.goto('instances');
    await tab.sees('the shared store does not answer', 'main');
    await ask('start-redis');
    await tab.seesNot('The store (Redis) cannot be used');
    await tab.page.waitForFunction(() => !document.querySelector('main.old')); // once new figures have come
    await tab.page.waitForFunction(() => !document.title.startsWith('Down'));
    await tab.sees('Live', '[role=status]');
    assert.equal(before(), 0, 'the page was loaded again');
  },
  'all instances restart': async (open) => {
    const tab = await begin(open);
    const before = loads(tab);
    tab.tolerant = true;
    await ask('stop-instances');
    await tab.sees('The connection to the scheduler is lost', '[role=alert]');
    await tab.page.waitForFunction(() => document.title.startsWith('Down: no instance answers'));
    await ask('start-instances');
    await tab.seesNot('The connection to the scheduler is lost');
    await tab.sees('Live', '[role=status]');
    assert.equal(before(), 0, 'the page was loaded again');
  },
});
