/** Prints the times of the first contentful paint, in milliseconds, of loads with an empty cache, each in a browser of its own. */
import { given, openBrowser } from './harness.mjs';

const paints = [];
let bytes = 0;
for (let n = 0; n < given.runs; n++) {
  const browser = await openBrowser();
  try {
    const page = await browser.newPage();
    bytes = 0;
    const devtools = await page.createCDPSession();
    await devtools.send('Network.enable');
    devtools.on('Network.loadingFinished', (e) => (bytes += e.encodedDataLength));
    await page.goto(given.url + '/dashboard/');
    const paint = await page.waitForFunction(
      () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime,
      { polling: 20 },
    );
    paints.push(Math.round(await paint.jsonValue()));
  } finally {
    await browser.close();
  }
}
console.log(JSON.stringify({ paints, bytes }));
