/** Makes the pictures of the README. */
import { given, openBrowser, Tab } from './harness.mjs';

const shots = [
  { file: 'dashboard-overview.png', page: 'overview?range=5', theme: 'light' },
  { file: 'dashboard-languages.png', page: 'languages?src_lang=en&tgt_lang=zh', theme: 'light' },
  { file: 'dashboard-waiting.png', page: 'waiting', theme: 'light' },
  { file: 'dashboard-node.png', page: 'nodes/geneva?range=5', theme: 'dark' },
];
const history = 240_000; // so that the charts have something to show

const browser = await openBrowser();
try {
  const tab = await Tab.open(browser, given.url);
  await tab.page.setViewport({ width: 1440, height: 900 });
  await tab.goto('overview');
  await tab.login(given.keys.operator);
  await new Promise((done) => setTimeout(done, history));
  for (const { file, page, theme } of shots) {
    await tab.goto(page, { theme, lang: 'en', time: 'local' });
    await tab.settled();
    await new Promise((done) => setTimeout(done, 6000));
    await tab.page.screenshot({ path: `${given.pictures}/${file}` });
  }
} finally {
  await browser.close();
}
