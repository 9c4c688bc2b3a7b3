import assert from 'node:assert/strict';

import { ask, given, patience, run } from './harness.mjs';
import { visit } from './visit.mjs';

/** counted returns the links of the page that say how many rows they open. */
function counted(tab) {
  return tab.page.$$eval('main a[data-count]', (all) =>
    all.map((a) => ({
      link: a.getAttribute('href').replace(/^#\//, ''),
      text: a.textContent.trim(),
      count: Number(a.dataset.count),
    })),
  );
}

/** rows counts the rows of the page; undefined: they are not there yet. */
function rows(tab) {
  return tab.page.evaluate(() => {
    const long = document.querySelector('main [role=table]');
    if (long) return long.getAttribute('aria-rowcount') - 1;
    const matrix = document.querySelector('main [role=grid]');
    if (matrix) return matrix.querySelectorAll('button').length;
    const list = document.querySelector(
      'main :is([aria-label="Requests, the oldest first"], [aria-label="Dead letters"]) tbody',
    );
    if (list) return list.rows.length;
    return document.querySelector('main .empty') ? 0 : undefined;
  });
}

/** opens checks that a link opens as many rows as it says. The fleet is at work: what the link says before and after are the bounds. */
async function opens(tab, page, { link, text }) {
  for (const end = Date.now() + patience; ;) {
    const before = await countOf(tab, page, link);
    if (before === undefined) return; // there is nothing to count any more
    await tab.goto(link);
    await tab.settled();
    const found = await rows(tab);
    const after = (await countOf(tab, page, link)) ?? 0;
    if (found >= Math.min(before, after) && found <= Math.max(before, after)) return;
    assert.ok(Date.now() < end, `“${text}” at ${page} says ${before}, then ${after}, and ${link} has ${found} rows`);
  }
}

/** countOf returns what the link of a page says. */
async function countOf(tab, page, link) {
  await tab.goto(page);
  await tab.settled();
  return (await counted(tab)).find((c) => c.link === link)?.count;
}

await run({
  'every count opens what it counted': async (open) => {
    const tab = await open();
    await tab.goto('');
    await tab.login(given.keys.operator);
    await ask('hold-jobs');
    await ask('dead-letters');
    for (const { job_id: id } of (await tab.api('v1/jobs?state=open&session_id=held')).body.jobs)
      await tab.api(`v1/jobs/${id}/cancel`, 'POST');
    await tab.goto('overview', { lang: 'en' });
    for (const said of ['a[data-count][href*="end_reason=CANCELLED"]', 'a[data-count][href*="part=dead-letters"]'])
      await tab.page.waitForFunction((link) => document.querySelector('main ' + link), {}, said);
    const seen = new Set();
    const pages = [];
    await visit(tab, 'counts', async (page) => {
      pages.push([page, await counted(tab)]);
    });
    for (const [page, links] of pages) {
      for (const c of links) {
        await opens(tab, page, c);
        seen.add(c.link.split('?')[0]);
      }
    }
    console.log('counts of', [...seen].join(', '));
    for (const page of ['nodes', 'sessions', 'jobs', 'waiting', 'instances'])
      assert.ok(seen.has(page), `no page counts ${page}`);
  },
});
