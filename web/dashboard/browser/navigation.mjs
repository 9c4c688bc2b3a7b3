import assert from 'node:assert/strict';

import { given, run } from './harness.mjs';

const rows = '[role=table] [role=rowgroup][tabindex]';

async function begin(open, page) {
  const tab = await open();
  await tab.goto(page);
  await tab.login(given.keys.operator);
  await tab.goto(page);
  await tab.settled();
  return tab;
}

/** follow goes to a page by a link of the navigation, as a person does. */
async function follow(tab, name) {
  await tab.press(name, 'nav');
  await tab.settled();
}

function focused(tab) {
  return tab.page.evaluate(() => `${document.activeElement.tagName} ${document.activeElement.textContent.trim()}`);
}

await run({
  'what is typed into a filter stays at its page': async (open) => {
    const tab = await begin(open, 'sessions');
    await follow(tab, 'Nodes');
    await tab.page.focus('main input[type=search]');
    await tab.page.keyboard.type('ta');
    await tab.page.goBack();
    await tab.sees('Sessions', 'main h1');
    await new Promise((done) => setTimeout(done, 500)); // longer than a filter waits for the next key
    assert.equal(await tab.page.evaluate(() => location.hash), '#/sessions');
  },
  'the focus and the title follow': async (open) => {
    const tab = await begin(open, 'overview');
    await follow(tab, 'Nodes');
    assert.equal(await focused(tab), 'H1 Nodes');
    await tab.press('oslo');
    await tab.sees('oslo', 'main h1');
    assert.equal(await focused(tab), 'H1 oslo');
    assert.ok((await tab.page.title()).endsWith('oslo · Nodes · Lingua')); // the verdict on the fleet comes first
    await tab.press('← All nodes');
    await tab.sees('Nodes', 'main h1');
    assert.ok((await tab.page.title()).endsWith('Nodes · Lingua'));
  },
  'a table is where it was after back': async (open) => {
    const tab = await begin(open, 'jobs');
    await tab.page.waitForFunction((s) => document.querySelector(s).scrollHeight > 4000, {}, rows);
    await tab.page.$eval(rows, (e) => (e.scrollTop = 2400));
    await tab.sees('stands still', 'main');
    await tab.page.$eval(rows, (e) => e.querySelectorAll('a[href^="#/jobs/"]')[12].click());
    await tab.sees('Job', 'main h1');
    await tab.page.goBack();
    await tab.page.waitForFunction((s) => document.querySelector(s)?.scrollTop === 2400, {}, rows);
    await follow(tab, 'Nodes');
    await follow(tab, 'Jobs');
    assert.equal(await tab.page.$eval(rows, (e) => e.scrollTop), 0, 'a new visit begins at the top');
    const [whole, window] = await tab.page.evaluate(() => [document.documentElement.scrollHeight, innerHeight]);
    assert.ok(whole <= window, `the page is ${whole} pixels high in a window of ${window}`);
  },
  'an unknown page': async (open) => {
    const tab = await begin(open, 'overview');
    await tab.goto('blah');
    await tab.sees('There is no page “blah”.');
    assert.equal(await tab.page.$('nav [aria-current]'), null);
    await tab.checkAxe('an unknown page');
    await tab.press('Go to the overview');
    await tab.sees('Overview', 'main h1');
  },
  'a search says what it found': async (open) => {
    const tab = await begin(open, 'overview');
    await tab.page.keyboard.press('/');
    await tab.page.keyboard.type('job-');
    await tab.page.keyboard.press('Enter');
    await tab.sees('Results for “job-”', 'main h1');
    await tab.sees('The first 20; there may be more.');
    assert.ok((await tab.page.title()).endsWith('job- · Search · Lingua'));
    assert.equal(await tab.page.$('nav [aria-current]'), null);
    await tab.checkAxe('results of a search');
    await follow(tab, 'Jobs');
    assert.equal(await tab.page.$eval('.bar input', (e) => e.value), '');
  },
  'a narrow screen has a menu and filters behind buttons': async (open) => {
    const tab = await begin(open, 'nodes');
    await tab.page.setViewport({ width: 320, height: 800 });
    const shown = (selector) => tab.page.$eval(selector, (e) => e.checkVisibility());
    assert.equal(await shown('nav'), false);
    assert.ok(
      await tab.page.$eval('main h1', (e) => e.getBoundingClientRect().top < 150),
      'the heading is far from the top',
    );
    await tab.press('Menu', 'header');
    await tab.page.waitForFunction(() => document.querySelector('nav').checkVisibility());
    await tab.checkAxe('the menu');
    await tab.checkWidth('the menu');
    await follow(tab, 'Jobs');
    assert.equal(await shown('nav'), false);
    assert.equal(await shown('main select'), false);
    await tab.press('Filters');
    assert.equal(await shown('main select'), true);
    await tab.page.select('main select', 'DONE');
    await tab.press('Filters (1)');
    assert.equal(await shown('main select'), false);
    await tab.checkWidth('filters');
  },
  'why no speech is shown': async (open) => {
    const tab = await begin(open, 'overview');
    await tab.press('No speech shown', '.bar');
    await tab.page.waitForFunction(() => document.querySelector('.bar :popover-open')?.textContent.includes('audited'));
    await tab.checkAxe('the explanation');
  },
});
