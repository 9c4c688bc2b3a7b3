/**
 * Lists and searches many nodes and jobs, and prints the longest time between two frames and the longest task of the page, in milliseconds,
 * by what was done.
 */
import { given, openBrowser, Tab } from './harness.mjs';

const browser = await openBrowser();
const longest = {};

/** during measures what the page does while something is done. */
async function during(tab, name, act) {
  await tab.page.evaluate(() => {
    window.frames_ = { longest: 0, task: 0, count: 0, run: true };
    let last = performance.now();
    const frame = (now) => {
      window.frames_.longest = Math.max(window.frames_.longest, now - last);
      window.frames_.count++;
      last = now;
      if (window.frames_.run) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    window.tasks_ = new PerformanceObserver((list) => {
      for (const e of list.getEntries()) window.frames_.task = Math.max(window.frames_.task, e.duration);
    });
    window.tasks_.observe({ type: 'longtask' });
  });
  await act();
  longest[name] = await tab.page.evaluate(() => {
    window.frames_.run = false;
    window.tasks_.disconnect();
    return {
      frame: Math.round(window.frames_.longest),
      task: Math.round(window.frames_.task),
      frames: window.frames_.count,
    };
  });
}

/** scroll scrolls a table from its beginning to its end, some screens a frame, and returns how many rows it has. */
function scroll(tab, rows) {
  return tab.page.evaluate(async (wanted) => {
    const body = document.querySelector('[role=table] [role=rowgroup][tabindex]');
    const count = () => Number(document.querySelector('[role=table]').ariaRowCount) - 1;
    const began = performance.now();
    while (performance.now() - began < 120_000) {
      await new Promise(requestAnimationFrame);
      const end = body.scrollHeight - body.clientHeight;
      if (body.scrollTop >= end - 1) {
        if (count() >= wanted) break;
        continue; // more rows are on their way
      }
      body.scrollTop = Math.min(end, body.scrollTop + 3 * body.clientHeight);
    }
    return count();
  }, rows);
}

async function search(tab, label, text, matches) {
  const field = `input[aria-label="${label}"]`;
  await tab.page.click(field, { count: 3 });
  await tab.page.keyboard.type(text, { delay: 60 });
  await tab.page.waitForFunction(
    (wanted) => Number(document.querySelector('[role=table]').ariaRowCount) - 1 <= wanted,
    { timeout: 60_000 },
    matches,
  );
}

try {
  const tab = await Tab.open(browser, given.url);
  const counts = {};
  await tab.goto('nodes');
  await tab.settled();
  await tab.page.waitForSelector('[role=table] [role=row] a');
  await during(tab, 'nodes: scroll all', async () => (counts.nodes = await scroll(tab, given.nodes)));
  await during(tab, 'nodes: search', () => search(tab, 'Search by id', 'node-0123', 10));
  await tab.goto('jobs');
  await tab.settled();
  await tab.page.waitForSelector('[role=table] [role=row] a');
  await during(tab, 'jobs: scroll all', async () => (counts.jobs = await scroll(tab, given.jobs)));
  await during(tab, 'jobs: idle, updated', () => new Promise((done) => setTimeout(done, 12_000)));
  await during(tab, 'jobs: search', () => search(tab, 'Job id (beginning)', 'job-0', given.jobs / 10));
  console.log(JSON.stringify({ counts, longest, problems: tab.problems }));
} finally {
  await browser.close();
}
