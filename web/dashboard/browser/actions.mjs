import assert from 'node:assert/strict';

import { ask, given, patience, run } from './harness.mjs';

async function begin(open, page, role = 'operator') {
  const tab = await open();
  await tab.goto(page);
  await tab.login(given.keys[role]);
  await tab.goto(page);
  await tab.settled();
  return tab;
}

/** confirm presses the button of the open dialog, again if a busy store refused, and waits until it is closed. */
async function confirm(tab, text) {
  for (const end = Date.now() + patience; ;) {
    await tab.press(text, 'dialog[open]');
    await tab.page.waitForFunction(() => document.querySelector('dialog[open] [role=alert]')?.textContent !== '');
    if (!(await tab.page.$('dialog[open]'))) return;
    assert.ok(Date.now() < end, 'the dialog stays open: ' + (await tab.text('dialog[open]')));
  }
}

/** audited waits until the audit log has an action of the operator. Entries are written in the background. */
async function audited(tab, action) {
  for (const end = Date.now() + patience; ; await new Promise((done) => setTimeout(done, 200))) {
    const { body } = await tab.api('v1/audit?limit=1000&action=' + action);
    if (body.entries.some((e) => e.action === action && e.outcome === 'ok' && e.key === 'operator')) return;
    assert.ok(Date.now() < end, `${action} is not in the audit log`);
  }
}

const cases = {
  'drain and resume a node': async (open) => {
    const tab = await begin(open, 'nodes/paris');
    await tab.press('Find out');
    await tab.sees('slots would be gone');
    assert.equal((await tab.api('v1/nodes/paris')).body.drained, false, 'the question changed something');
    await tab.press('Drain…');
    await tab.sees('gets no new ones', 'dialog[open]');
    await tab.checkAxe('the question of a drain');
    await confirm(tab, 'Drain');
    await tab.sees('Drained: no job is left');
    assert.equal((await tab.api('v1/nodes/paris')).body.drained, true);
    await audited(tab, 'node.drain');
    await tab.press('Resume…');
    await confirm(tab, 'Resume');
    await tab.seesNot('Drained: no job is left');
    assert.equal((await tab.api('v1/nodes/paris')).body.drained, false);
  },
  'send a synthetic utterance': async (open) => {
    const tab = await begin(open, 'nodes/oslo');
    await tab.press('Send');
    await tab.sees('The node returned a result in');
    await audited(tab, 'node.probe');
  },
  'drain and resume all nodes that match': async (open) => {
    const tab = await begin(open, 'nodes?search=o');
    const { body } = await tab.api('v1/nodes/table?search=o');
    for (const [act, drained] of [
      ['Drain', true],
      ['Resume', false],
    ]) {
      await tab.press(`${act} all that match…`);
      await tab.sees(`Type ${body.matches} to confirm`, 'dialog[open]');
      await tab.page.type('dialog[open] input', String(body.matches));
      await confirm(tab, `${act} ${body.matches} nodes`);
      await tab.sees(`${body.matches} nodes ${act.toLowerCase()}ed`.replace('resumeed', 'resumed'));
      for (const row of body.rows)
        assert.equal((await tab.api('v1/nodes/' + row.node_id)).body.drained, drained, row.node_id);
    }
  },
  'cancel one job, and all that match': async (open) => {
    const tab = await begin(open, 'jobs?node_id=holder');
    await ask('hold-jobs');
    const list = (await tab.api('v1/jobs?node_id=holder&state=open')).body.jobs;
    assert.ok(list.length >= 4, `${list.length} open jobs`);
    const first = list[0].job_id;
    await tab.goto('jobs/' + first);
    await tab.press('Cancel job');
    await confirm(tab, 'Cancel job');
    await tab.sees('CANCELLED');
    assert.equal((await tab.api('v1/jobs/' + first)).body.state, 'CANCELLED');
    await audited(tab, 'job.cancel');
    await tab.goto('jobs?node_id=holder&state=open');
    await tab.press('Cancel all that match…');
    await tab.sees(`${list.length - 1} open jobs match`, 'dialog[open]');
    await confirm(tab, `Cancel ${list.length - 1} jobs`);
    await tab.sees(`${list.length - 1} jobs cancelled`);
    assert.deepEqual((await tab.api('v1/jobs?node_id=holder&state=open')).body.jobs, []);
    await tab.goto('jobs?state=FAILED');
    await tab.sees('Jobs that have ended cannot be cancelled');
    assert.equal(await tab.page.$eval('main button.danger', (b) => b.disabled), true);
  },
  'remove a node': async (open) => {
    await ask('hold-jobs');
    const tab = await begin(open, 'nodes/holder');
    await tab.press('Remove…');
    tab.tolerant = true; // the page looks whether the node has registered again, and the browser reports that it is not found
    await confirm(tab, 'Remove');
    await tab.sees('holder was removed');
    await tab.sees('There is no node of this name.');
    await audited(tab, 'node.remove');
  },
  'end a session': async (open) => {
    const tab = await begin(open, 'sessions');
    const { session_id: id } = (await tab.api('v1/sessions?limit=1')).body.sessions[0];
    await tab.goto('sessions/' + encodeURIComponent(id));
    await tab.press('End session');
    await tab.sees('cannot resume', 'dialog[open]');
    await confirm(tab, 'End session');
    await tab.sees('This session has ended');
    const left = (await tab.api('v1/sessions?search=' + encodeURIComponent(id))).body.sessions;
    assert.deepEqual(left, []);
  },
  'replay and purge dead letters': async (open) => {
    const tab = await begin(open, 'overview');
    await ask('dead-letters');
    await tab.press('3 dead letters'); // of the verdict, which counts them within 25 s
    await tab.sees('Replay all 3…');
    await tab.press('Replay all 3…');
    await confirm(tab, 'Replay');
    await tab.sees('Purge all 3…'); // they are not understood the second time either
    await tab.press('Purge all 3…');
    await confirm(tab, 'Purge');
    await tab.sees('No dead letters.');
    assert.equal((await tab.api('v1/dlq')).body.total, 0);
  },
  'revoke a node and lift it': async (open) => {
    const tab = await begin(open, 'configuration/revocations');
    await tab.press('Revoke…');
    await tab.page.select('dialog[open] select', 'node');
    await tab.page.type('dialog[open] input', 'stranger');
    await confirm(tab, 'Revoke');
    await tab.sees('stranger is revoked');
    const revoked = async () =>
      (await tab.api('v1/auth/revocations')).body.revocations.filter((r) => r.name === 'stranger');
    assert.equal((await revoked()).length, 1);
    const lift = await tab.page.waitForSelector('xpath///tr[contains(., "stranger")]//button');
    await lift.click();
    await confirm(tab, 'Lift');
    await tab.sees('The revocation of stranger is lifted.');
    assert.deepEqual(await revoked(), []);
  },
  'reload the configuration': async (open) => {
    const tab = await begin(open, 'configuration');
    await tab.sees('scheduler.sessions');
    await tab.press('Reload configuration');
    await tab.press('Reload configuration', 'dialog[open]');
    await tab.sees('The configuration is reloaded', 'dialog[open]');
    await confirm(tab, 'Close');
    await audited(tab, 'config.reload');
    assert.ok(!(await tab.page.content()).includes(given.keys.operator), 'the page has a secret');
  },
  'the audit log begins with what people did': async (open) => {
    const tab = await begin(open, 'configuration/audit');
    await tab.sees('login.begin', 'main');
    assert.doesNotMatch(await tab.text('main [role=table]'), /session\.(start|resume)|node\.register/);
    await tab.press('By people');
    await tab.page.waitForFunction(() => location.hash.includes('by=all'));
    await tab.shows(/session\.(start|resume)|node\.(register|reconnect)/, 'main [role=table]');
  },
  'explain a dispatch': async (open) => {
    const tab = await begin(open, 'languages');
    await tab.page.click('tbody tr:last-child td button'); // the worst have no node
    await tab.press('Explain');
    await tab.sees('capable nodes can take the job now');
    await tab.checkAxe('an explanation');
  },
  'cancel a request that waits for a slot': async (open) => {
    const tab = await begin(open, 'waiting');
    tab.tolerant = true; // its job has no record, which the browser reports
    const dispatch = (options) =>
      fetch(new URL('/v1/dispatch/f2f', given.url), {
        method: 'POST',
        headers: { Authorization: 'Bearer ' + given.keys.operator, 'Content-Type': 'application/json' },
        body: JSON.stringify({ session_id: 'waits', src_lang: 'sv', tgt_lang: 'da', audio_ref: 'blob://a', options }),
      });
    const cancelAll = async () => {
      for (const { job_id: id } of (await tab.api('v1/jobs?state=open&src_lang=sv')).body.jobs)
        await tab.api(`v1/jobs/${id}/cancel`, 'POST');
    };
    // The node that holds jobs sends no heartbeats: on a machine that is very busy it is gone before the request is cancelled.
    for (const end = Date.now() + patience; ; await cancelAll()) {
      await ask('hold-jobs');
      while ((await dispatch({})).ok);
      const answer = dispatch({ max_wait_ms: 20_000 });
      const row = 'xpath///tr[contains(., "sv")]//a[contains(@href, "jobs/")]';
      const link = await tab.page.waitForSelector(row, { timeout: 5000 }).catch(() => undefined);
      if (link) {
        await link.click();
        await tab.sees('This request waits for a slot.');
        await tab.press('Cancel job');
        await tab.press('Cancel job', 'dialog[open]');
        if ((await answer).status === 409) break;
      }
      assert.ok(Date.now() < end, 'the request was not cancelled');
      await tab.goto('waiting');
    }
    await tab.sees('The request is cancelled.');
    await audited(tab, 'job.cancel');
    await cancelAll();
  },
  'read the text of a result, which is audited': async (open) => {
    const tab = await begin(open, 'jobs');
    const { job_id: id } = (await tab.api('v1/jobs?state=DONE&limit=1')).body.jobs[0];
    await tab.goto('jobs/' + id);
    await tab.sees('The text is not shown.');
    await tab.press('Read it…');
    await confirm(tab, 'Read, and record it');
    await tab.sees('the same in ');
    await audited(tab, 'job.read_text');
    await tab.press('Hide');
    await tab.seesNot('the same in ');
  },
  'search by id': async (open) => {
    const tab = await begin(open, 'overview');
    await tab.page.keyboard.press('/');
    await tab.page.keyboard.type('geneva');
    await tab.page.keyboard.press('Enter');
    await tab.page.waitForFunction(() => location.hash === '#/nodes/geneva');
    await tab.sees('geneva', 'main h1');
  },
  'a pause pauses': async (open) => {
    const tab = await begin(open, 'overview');
    await tab.press('Pause updates', '.bar');
    await tab.sees('Paused', '[role=status]');
    const requests = [];
    tab.page.on('request', (r) => requests.push(r.url()));
    const withoutAges = () =>
      tab.page.$eval('main .page', (page) => {
        const copy = page.cloneNode(true);
        for (const age of copy.querySelectorAll('time, .age')) age.remove();
        return copy.textContent;
      });
    const before = await tab.text('main .page');
    const figures = await withoutAges();
    await new Promise((done) => setTimeout(done, 6000));
    assert.equal(await withoutAges(), figures, 'the page changed');
    assert.deepEqual(requests, []);
    await tab.press('Resume updates', '.bar');
    await tab.sees('Live', '[role=status]');
    await tab.page.waitForFunction(
      (old) => (document.querySelector('main .page')?.textContent ?? old) !== old,
      {},
      before,
    );
  },
  'the tab is hidden': async (open) => {
    const tab = await begin(open, 'overview');
    const streams = await tab.streams();
    await tab.page.reload();
    await tab.sees('Live', '[role=status]');
    assert.deepEqual(streams.open(), 1);
    const other = await tab.context.newPage();
    await other.bringToFront();
    await tab.page.waitForFunction(() => document.hidden);
    await streams.ended();
    const requests = [];
    tab.page.on('request', (r) => requests.push(new URL(r.url()).pathname));
    await new Promise((done) => setTimeout(done, 6000));
    // The title and the icon say what the statistics say, which are read seldom.
    const others = requests.filter((path) => !path.endsWith('/api/v1/stats'));
    assert.deepEqual([others, requests.length <= 1], [[], true]);
    assert.equal(streams.open(), 0);
    await tab.page.bringToFront();
    await tab.sees('Live', '[role=status]');
    assert.equal(streams.open(), 1);
  },
  'an update does not close a dialog': async (open) => {
    const tab = await begin(open, 'nodes/geneva');
    await tab.press('Drain…');
    for (let updates = 0; updates < 3; updates++)
      await tab.page.waitForResponse((r) => new URL(r.url()).pathname === '/v1/nodes/geneva');
    assert.ok(await tab.page.$('dialog[open]'), 'the dialog is closed');
    await tab.page.keyboard.press('Escape');
    await tab.page.waitForFunction(() => !document.querySelector('dialog[open]'));
  },
  'kiosk mode': async (open) => {
    const tab = await begin(open, 'overview');
    await tab.press('Kiosk', '.bar');
    await tab.sees('Leave kiosk mode');
    assert.equal(await tab.page.$('nav'), null);
    await tab.press('Leave kiosk mode', 'body');
    await tab.page.waitForSelector('nav');
    await tab.press('Kiosk', '.bar');
    await tab.page.waitForFunction(() => !document.querySelector('nav'));
    await tab.page.keyboard.press('Escape');
    await tab.page.waitForSelector('nav');
  },
  'times as the person wants them': async (open) => {
    const tab = await begin(open, 'nodes');
    await tab.page.select('select[aria-label=Times]', 'utc');
    await tab.shows(/\d\d:\d\d:\d\dZ/);
    await tab.page.reload();
    await tab.shows(/\d\d:\d\d:\d\dZ/);
  },
  'a viewer can change nothing': async (open) => {
    const tab = await begin(open, 'nodes/oslo', 'viewer');
    const acts = [
      'Drain…',
      'Resume…',
      'Remove…',
      'Send',
      'Cancel job',
      'End session',
      'Revoke…',
      'Reload configuration',
      'Lift',
    ];
    const { job_id: job } = (await tab.api('v1/jobs?limit=1')).body.jobs[0];
    const { session_id: session } = (await tab.api('v1/sessions?limit=1')).body.sessions[0];
    for (const page of [
      'nodes',
      'nodes/oslo',
      'jobs',
      'jobs/' + job,
      'sessions/' + session,
      'instances',
      'configuration/revocations',
    ]) {
      await tab.goto(page);
      await tab.settled();
      for (const act of acts) assert.equal(await tab.has(act), false, `a viewer sees ${act} at ${page}`);
      assert.doesNotMatch(await tab.text(), /all that match/);
    }
    tab.tolerant = true; // the browser reports refused requests
    for (const path of [
      'v1/nodes/oslo/drain',
      'v1/nodes/oslo/probe',
      `v1/jobs/${job}/cancel`,
      'v1/jobs/cancel',
      'v1/nodes/drain',
      'v1/dlq/purge',
      'v1/config/reload',
    ])
      assert.equal((await tab.api(path, 'POST', {})).status, 403, path);
  },
  'a wrong key, and the end of a login': async (open) => {
    const tab = await open();
    await tab.goto('overview');
    await tab.page.waitForSelector('input[type=password]');
    tab.tolerant = true;
    await tab.page.type('input[type=password]', 'wrong-key-of-these-tests');
    await tab.page.click('button[type=submit]');
    await tab.sees('This key is not valid here');
    tab.tolerant = false;
    await tab.login(given.keys.operator);
    tab.tolerant = true;
    await tab.context.deleteCookie(...(await tab.context.cookies()));
    await tab.page.waitForSelector('input[type=password]');
  },
};

await run(cases);
