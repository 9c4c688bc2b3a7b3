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
  'the arrow keys move in the matrix': async (open) => {
    const tab = await begin(open, 'languages');
    await tab.press('Pause updates', '.bar'); // so that the order of the rows stays
    const cell = () => tab.page.evaluate(() => document.activeElement.dataset.cell);
    const { rows, stops } = await tab.page.$eval('[role=grid]', (grid) => ({
      rows: [...grid.querySelectorAll('tbody tr')].map((r) =>
        [...r.querySelectorAll('button')].map((b) => b.dataset.cell),
      ),
      stops: grid.querySelectorAll('[tabindex="0"]').length,
    }));
    assert.equal(stops, 1, 'places in the order of Tab');
    await tab.page.focus('[aria-label=View] button:last-child');
    await tab.page.keyboard.press('Tab');
    assert.equal(await cell(), rows[0][0]);
    const row = rows.at(-1); // languages that most nodes serve
    await tab.page.focus(`[data-cell="${row[0]}"]`);
    const press = async (key) => {
      await tab.page.keyboard.press(key);
      return cell();
    };
    assert.equal(await press('ArrowLeft'), row[0], 'nothing is to the left');
    assert.equal(await press('ArrowRight'), row[1]);
    assert.equal(await press('End'), row.at(-1));
    assert.equal(await press('ArrowDown'), row.at(-1), 'nothing is below');
    const above = await press('ArrowUp');
    assert.ok(above !== row.at(-1) && above.split(' ')[1] === row.at(-1).split(' ')[1], above);
    assert.equal(await press('ArrowDown'), row.at(-1));
    assert.equal(await press('Home'), row[0]);
    assert.equal(await tab.page.$$eval('[role=grid] [tabindex="0"]', (all) => all.length), 1);
    const chosen = await cell();
    await tab.page.keyboard.press('Enter');
    const [src, tgt] = chosen.split(' ');
    await tab.page.waitForFunction(
      (s, t) => location.hash.includes(`src_lang=${s}&tgt_lang=${t}`),
      {},
      encodeURIComponent(src),
      encodeURIComponent(tgt),
    );
    assert.equal(await cell(), chosen, 'the focus stays');
    await tab.checkAxe('the matrix with a direction');
  },
  'a row that moves in the matrix keeps the focus': async (open) => {
    const tab = await begin(open, 'languages');
    const cell = await tab.page.$eval('[role=grid] tbody tr:last-child button', (b) => b.dataset.cell);
    await tab.page.focus(`[data-cell="${cell}"]`);
    await tab.page.setRequestInterception(true);
    tab.page.on('request', (r) => {
      if (new URL(r.url()).pathname !== '/v1/directions') return void r.continue();
      const [src_lang, tgt_lang] = cell.split(' ');
      const none = { src_lang, tgt_lang, nodes: 1, ready: 0, capacity: 0, in_flight: 0, free: 0 };
      const fine = { src_lang: tgt_lang, tgt_lang: src_lang, nodes: 2, ready: 2, capacity: 2, in_flight: 0, free: 2 };
      const other = { ...fine, tgt_lang: 'aa' };
      const body = JSON.stringify({ directions: [none, fine, other, { ...other, src_lang: 'aa', tgt_lang }] });
      return void r.respond({ contentType: 'application/json', body });
    });
    await tab.page.waitForFunction(
      (c) => document.querySelector('[role=grid] tbody tr button').dataset.cell === c,
      {},
      cell,
    );
    assert.equal(await tab.page.evaluate(() => document.activeElement.dataset.cell), cell);
  },
  'the form that explains is closed until a direction is chosen': async (open) => {
    const tab = await begin(open, 'languages');
    const shown = () => tab.page.$eval('details form', (e) => e.checkVisibility());
    assert.equal(await shown(), false);
    await tab.page.focus('details summary');
    await tab.page.keyboard.press('Enter');
    await tab.page.waitForFunction(() => document.querySelector('details form').checkVisibility());
    await tab.checkAxe('the empty form');
    await tab.page.keyboard.press('Enter');
    await tab.page.waitForFunction(() => !document.querySelector('details form').checkVisibility());
    await tab.page.click('[role=grid] button');
    await tab.page.waitForFunction(() => document.querySelector('details form').checkVisibility());
    const filled = await tab.page.$$eval('details form input[required]', (all) => all.map((i) => i.value).join(' '));
    assert.equal(filled, await tab.page.$eval('[role=grid] [aria-pressed=true]', (b) => b.dataset.cell));
    await tab.press('Close');
    await tab.page.waitForFunction(() => !document.querySelector('details form').checkVisibility());
  },
  'why no speech is shown': async (open) => {
    const tab = await begin(open, 'overview');
    await tab.press('No speech shown', '.bar');
    await tab.page.waitForFunction(() => document.querySelector('.bar :popover-open')?.textContent.includes('audited'));
    await tab.checkAxe('the explanation');
  },
});
