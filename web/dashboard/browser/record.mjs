/**
 * Prints what an open overview requests in a while: the path of each request and its time since the beginning, in milliseconds.
 */
import { given, openBrowser, Tab } from './harness.mjs';

const lasts = given.lasts_ms;

const browser = await openBrowser();
try {
  const tab = await Tab.open(browser, given.url);
  await tab.goto('overview');
  if (given.keys) await tab.login(given.keys.operator);
  await tab.settled();
  await new Promise((done) => setTimeout(done, 2000));
  const began = Date.now();
  const requests = [];
  tab.page.on('request', (r) => {
    const url = new URL(r.url());
    requests.push({ path: url.pathname.slice(1) + url.search, at: Date.now() - began });
  });
  await new Promise((done) => setTimeout(done, lasts));
  console.log(JSON.stringify({ lasts, requests }));
} finally {
  await browser.close();
}
