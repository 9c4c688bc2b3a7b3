/**
 * Does what some open overviews do, until the standard input ends: each has an event stream, and sends the requests of a recording over and
 * over, from a random place of it on. Prints what was received.
 */
import { given } from './harness.mjs';

let cookie = '';
if (given.keys) {
  const answer = await fetch(given.url + '/login', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ key: given.keys.operator }),
  });
  cookie = answer.headers.get('set-cookie').split(';')[0];
}
const headers = { Cookie: cookie, 'Accept-Encoding': 'gzip' };
const ending = new AbortController();
const seen = { streams: 0, messages: 0, requests: 0, failed: 0 };

async function follow() {
  try {
    const answer = await fetch(given.url + '/v1/live', { headers, signal: ending.signal });
    if (!answer.ok) throw new Error(`${answer.status}`);
    seen.streams++;
    const text = new TextDecoder();
    for await (const part of answer.body) seen.messages += text.decode(part).split('\nevent: ').length;
  } catch (e) {
    if (!ending.signal.aborted) seen.failed++;
    void e;
  }
}

async function ask(path) {
  try {
    const answer = await fetch(given.url + '/' + path, { headers, signal: ending.signal });
    await answer.arrayBuffer();
    seen.requests++;
    if (!answer.ok) seen.failed++;
  } catch {
    if (!ending.signal.aborted) seen.failed++;
  }
}

for (let n = 0; n < given.dashboards; n++) {
  void follow();
  const begins = Math.random() * given.recording.lasts;
  for (const r of given.recording.requests) {
    const first = (r.at - begins + given.recording.lasts) % given.recording.lasts;
    setTimeout(() => {
      void ask(r.path);
      setInterval(() => void ask(r.path), given.recording.lasts);
    }, first);
  }
}
console.log('running');
process.stdin.on('end', () => {
  ending.abort();
  console.log(JSON.stringify(seen));
  process.exit(0);
});
process.stdin.resume();
