import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import { launch } from 'puppeteer-core';

/** What the test gives to this program: URLs, keys, and where it can be asked for faults. */
export const given = JSON.parse(process.argv[2] ?? '{}');

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
export const patience = 60_000; // on a busy machine
const polling = 50; // ms between two checks of a condition
const maxShift = 0.1; // what browsers call good

/** ask asks the test to do something to the cluster, such as to kill an instance. */
export async function ask(action, body = {}) {
  const answer = await fetch(given.control + action, { method: 'POST', body: JSON.stringify(body) });
  const text = await answer.text();
  assert.ok(answer.ok, `${action}: ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}

export async function openBrowser() {
  return launch({
    executablePath: given.chromium,
    headless: true,
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--font-render-hinting=none'],
    protocolTimeout: 120_000,
  });
}

/** Tab is a page of the browser that records everything that must not happen. */
export class Tab {
  problems = [];
  /** While true, failed requests and their messages in the console are expected: something is down. */
  tolerant = false;

  static async open(browser, base) {
    const context = await browser.createBrowserContext();
    const tab = new Tab();
    tab.context = context;
    tab.base = base;
    tab.page = await context.newPage();
    tab.page.setDefaultTimeout(patience);
    // By default a condition is checked in every frame, and so the browser draws as many frames as it can.
    const waitForFunction = tab.page.waitForFunction.bind(tab.page);
    tab.page.waitForFunction = (condition, options, ...args) =>
      waitForFunction(condition, { polling, ...options }, ...args);
    await tab.page.setViewport({ width: 1440, height: 900 });
    tab.page.on('console', (m) => {
      if (m.type() !== 'error' && m.type() !== 'warn') return;
      if (tab.tolerant || tab.refusedLogin(m) || tab.busy(m)) return;
      tab.problems.push(`console ${m.type()}: ${m.text()} ${m.location().url ?? ''}`);
    });
    tab.page.on('pageerror', (e) => tab.problems.push('error of the page: ' + e.stack));
    tab.page.on('request', (r) => {
      const url = new URL(r.url()); // the browser draws some of its own fields with data
      if (url.protocol !== 'data:' && url.origin !== new URL(base).origin)
        tab.problems.push('foreign request: ' + r.url());
    });
    await tab.page.evaluateOnNewDocument(() => {
      window.policyViolations = [];
      document.addEventListener('securitypolicyviolation', (e) => {
        window.policyViolations.push(`${e.violatedDirective}: ${e.blockedURI} ${e.sample}`);
      });
      window.layoutShift = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.layoutShift += entry.value;
      }).observe({ type: 'layout-shift', buffered: true });
    });
    return tab;
  }

  /** The page asks who it is before somebody has logged in, and the browser reports the refusal. */
  refusedLogin(message) {
    return /status of 401/.test(message.text()) && /\/v1\/caller$/.test(message.location().url ?? '');
  }

  /** A busy store refuses reads, and the page reads again. What it does not show in the end fails the checks of its content. */
  busy(message) {
    return /status of 503/.test(message.text());
  }

  /** goto shows a page of the dashboard, such as nodes/oslo?state=ready. */
  async goto(path, choices = {}) {
    const target = this.base + '/dashboard/#/' + path;
    if (this.page.url().startsWith(this.base + '/dashboard/')) {
      await this.page.evaluate((hash) => (location.hash = hash), '/' + path);
    } else await this.page.goto(target);
    if (Object.keys(choices).length > 0) await this.choose(choices);
  }

  /** choose sets what a person chooses in the foot of the navigation: theme, lang, time. */
  async choose(choices) {
    await this.page.evaluate((all) => {
      for (const [name, value] of Object.entries(all)) localStorage.setItem('lingua.' + name, value);
    }, choices);
    await this.page.reload();
  }

  async login(key) {
    await this.page.waitForSelector('input[type=password]');
    await this.page.type('input[type=password]', key);
    await this.page.click('button[type=submit]');
    await this.page.waitForSelector('nav a[aria-current=page]');
  }

  /** api reads or writes as the page does, with its cookie. A busy store refuses with 503, and the request is repeated. */
  async api(path, method = 'GET', body = undefined) {
    const text = body === undefined ? null : JSON.stringify(body);
    for (const end = Date.now() + patience; ; await new Promise((done) => setTimeout(done, 200))) {
      const answer = await this.page.evaluate(
        async (p, m, b) => {
          const init = { method: m, headers: { 'Content-Type': 'application/json' } };
          if (b !== null) init.body = b;
          const answer = await fetch('../' + p, init);
          return { status: answer.status, body: await answer.json().catch(() => undefined) };
        },
        path,
        method,
        text,
      );
      if (answer.status !== 503 || Date.now() > end) return answer;
    }
  }

  /** settled waits until the page shows what it has read. */
  async settled() {
    await this.page.waitForSelector('main h1');
    await this.page.waitForFunction(() => {
      const main = document.querySelector('main');
      return main !== null && !/Loading…|正在读取…/.test(main.textContent);
    });
  }

  /** shows waits until a text matches. The part of the page that has it may be absent meanwhile. */
  async shows(pattern, selector = 'main') {
    await this.page.waitForFunction(
      (s, source) => new RegExp(source).test(document.querySelector(s)?.textContent ?? ''),
      {},
      selector,
      pattern.source,
    );
  }

  text(selector = 'main') {
    return this.page.$eval(selector, (e) => e.textContent);
  }

  /** sees waits until a text is in the page. */
  async sees(text, selector = 'body') {
    try {
      await this.page.waitForFunction(
        (s, wanted) => document.querySelector(s)?.textContent.includes(wanted) ?? false,
        {},
        selector,
        text,
      );
    } catch {
      assert.fail(`“${text}” does not appear in ${selector}: ${(await this.text('body')).slice(0, 2000)}`);
    }
  }

  async seesNot(text, selector = 'body') {
    try {
      await this.page.waitForFunction(
        (s, unwanted) => !(document.querySelector(s)?.textContent.includes(unwanted) ?? false),
        {},
        selector,
        text,
      );
    } catch {
      assert.fail(`“${text}” stays in ${selector}`);
    }
  }

  /** press presses the button or link with a text, once it does not move. */
  async press(text, within = 'main') {
    const found = await this.page.waitForFunction(
      (scope, wanted) =>
        [...document.querySelectorAll(`${scope} button, ${scope} a`)].find(
          (e) => !e.disabled && (e.textContent.trim() === wanted || e.getAttribute('aria-label') === wanted),
        ),
      {},
      within,
      text,
    );
    await found.asElement().asLocator().click();
  }

  has(text, within = 'main') {
    return this.page.evaluate(
      (scope, wanted) => [...document.querySelectorAll(`${scope} button`)].some((e) => e.textContent.trim() === wanted),
      within,
      text,
    );
  }

  /** streams counts the event streams of the page, and has what they bring. */
  async streams() {
    const running = new Set();
    const messages = [];
    this.page.on('request', (r) => {
      if (new URL(r.url()).pathname.endsWith('/v1/live')) running.add(r);
    });
    for (const end of ['requestfinished', 'requestfailed']) this.page.on(end, (r) => running.delete(r));
    const devtools = await this.page.createCDPSession();
    await devtools.send('Network.enable');
    devtools.on('Network.eventSourceMessageReceived', (e) => messages.push({ name: e.eventName, data: e.data }));
    const until = async (condition, otherwise) => {
      for (const end = Date.now() + patience; !condition(); await new Promise((done) => setTimeout(done, 50)))
        assert.ok(Date.now() < end, otherwise);
    };
    return {
      messages,
      open: () => running.size,
      ended: () => until(() => running.size === 0, 'the event stream goes on'),
      /** brought waits for a message with a name. */
      brought: (name) => until(() => messages.some((m) => m.name === name), `the event stream brings no ${name}`),
    };
  }

  /** checkContent checks that the page has its heading and no message that something could not be read. */
  async checkContent(name) {
    const { heading, problems } = await this.page.evaluate(() => ({
      heading: document.querySelector('main h1')?.textContent.trim() ?? '',
      problems: [...document.querySelectorAll('main [role=alert]')].map((e) => e.textContent.trim()).filter(Boolean),
    }));
    if (heading === '') this.problems.push(`${name} has no heading`);
    if (problems.length > 0) this.problems.push(`${name} says: ${problems.join(' | ')}`);
  }

  /** checkShift checks how much of the page moved since it was asked last, as the browser measures it. */
  async checkShift(name) {
    const shift = await this.page.evaluate(() => {
      const sum = window.layoutShift;
      window.layoutShift = 0;
      return sum;
    });
    if (shift > maxShift) this.problems.push(`${name} moved by ${shift.toFixed(3)} while it was read`);
  }

  /** checkAxe checks the page as it is shown now. */
  async checkAxe(name) {
    if (!(await this.page.evaluate(() => 'axe' in window))) await this.page.evaluate(axeSource);
    const found = await this.page.evaluate(async () => {
      const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
      return violations.map(
        (v) =>
          `${v.id}: ${v.help}: ${v.nodes
            .slice(0, 3)
            .map((n) => n.html.slice(0, 160))
            .join(' | ')}`,
      );
    });
    for (const v of found) this.problems.push(`axe, ${name}: ${v}`);
  }

  /** checkWidth checks that the page does not scroll to the side. */
  async checkWidth(name) {
    const [wide, wanted, widest] = await this.page.evaluate(() => {
      const width = document.documentElement.clientWidth;
      const scrolls = (e) =>
        e !== null && (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
      const beyond = [...document.querySelectorAll('body *')].filter(
        (e) => e.getBoundingClientRect().right > width + 0.5 && !scrolls(e.parentElement),
      );
      return [document.documentElement.scrollWidth, width, beyond.slice(-3).map((e) => e.outerHTML.slice(0, 200))];
    });
    if (wide > wanted)
      this.problems.push(`${name} is ${wide} pixels wide in a window of ${wanted}: ${widest.join(' | ')}`);
  }

  /** close closes the tab, and fails if anything happened that must not. */
  async close() {
    const violations = await this.page.evaluate(() => window.policyViolations);
    await this.context.close();
    assert.deepEqual([...this.problems, ...violations.map((v) => 'content security policy: ' + v)], []);
  }
}

/** run runs the cases of a program one after the other, and prints each. A failure leaves a picture. */
export async function run(cases) {
  const browser = await openBrowser();
  let failed = 0;
  try {
    for (const [name, test] of Object.entries(cases)) {
      const began = Date.now();
      const tabs = [];
      const open = async (base = given.url) => {
        const tab = await Tab.open(browser, base);
        tabs.push(tab);
        return tab;
      };
      try {
        await test(open);
        for (const tab of tabs.splice(0)) await tab.close();
        console.log(`ok ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
      } catch (e) {
        failed++;
        console.log(`FAILED ${name}: ${e.stack}`);
        for (const [n, tab] of tabs.entries()) {
          const file = `${given.pictures}/${name.replace(/\W+/g, '-')}-${n}.png`;
          await tab.page.screenshot({ path: file }).catch(() => undefined);
          console.log(`  at ${tab.page.url()}; picture: ${file}; ${tab.problems.join('; ')}`);
          await tab.context.close().catch(() => undefined);
        }
      }
    }
  } finally {
    await browser.close();
  }
  process.exitCode = failed === 0 ? 0 : 1;
}
