#!/usr/bin/env node
// A node: it receives jobs from a scheduler, translates their audio, and sends the results. Replace translate by your models.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, KEEPALIVE_MS, commandLine, log, main } from './connection.js';

/**
 * Translates the audio of a job. This stand-in takes half a second and describes the audio that it received.
 *
 * @param {Buffer} audio in the format of job.audio (encoding, sample_rate, channels); empty for a job that was dispatched over
 *   HTTP, whose audio is wherever job.audio.ref says
 * @param job the job_assign message: src_lang, tgt_lang, options and more
 * @param {AbortSignal} signal is aborted when nobody needs the result any more, or the time for it is over
 */
async function translate(audio, job, signal) {
  await sleep(500, undefined, { signal });
  const text = `${audio.length} bytes of ${job.src_lang}, sha256 ${createHash('sha256').update(audio).digest('hex').slice(0, 8)}`;
  return { text_src: text, text_tgt: text.toUpperCase() };
}

const usage = `node node.js [--url URL]... [--token TOKEN] [--id NAME] [--langs en,es] [--slots 4]

  --url    a scheduler; repeat it for every instance (default: $LINGUA_URL or http://127.0.0.1:5010)
  --token  the node's token (default: $LINGUA_TOKEN); a scheduler without keys requires none
  --id     the name of the node, which stays the same when it restarts (default: javascript-node)
  --langs  the languages, each of which it translates into every other
  --slots  how many jobs it does at once

At SIGINT or SIGTERM it takes no more jobs, finishes those that it has, and ends.`;

class Node {
  #jobs = new Map(); // every job that was received and whose outcome is not acknowledged, by job_id and attempt_id
  #ack = { epoch: 0 }; // the last answer to a registration
  #registered = false; // on this connection
  #heartbeats = 0; // in this epoch
  #timer; // of the next heartbeat
  #drained = false; // by an operator: stay, and take nothing
  #stopping = false;

  constructor(options) {
    const langs = options.langs.split(',');
    this.slots = Number(options.slots);
    this.declaration = {
      node_id: options.id, max_concurrent_jobs: this.slots, semantic_langs: langs,
      nmt_pairs: langs.flatMap((from) => langs.filter((to) => to !== from).map((to) => [from, to])),
    };
    this.connection = new Connection(options, '/ws/node', {
      opened: () => this.connection.send({
        type: 'node_register', ...this.declaration, ...this.#state(), resume_token: this.#ack.resume_token, keepalive_ms: KEEPALIVE_MS,
      }),
      text: (message) => this.#receive(message),
      binary: (frame) => this.#receiveAudio(frame),
      closed: () => { this.#registered = false; },
    });
  }

  run() { return this.connection.run().finally(() => clearTimeout(this.#timer)); }

  /** Takes no more jobs, finishes those that it has, and ends; called again, ends at once. */
  stop() {
    if (this.#stopping) return this.#leave(); // the jobs go to other nodes
    this.#stopping = true;
    this.#heartbeat();
    this.#leaveIfIdle();
  }

  #leave() {
    if (this.#registered) this.connection.send({ type: 'node_leave' });
    this.connection.stop();
  }

  #leaveIfIdle() { if (this.#stopping && this.#jobs.size === 0) this.#leave(); }

  /** What registrations and heartbeats both report. */
  #state() {
    const active = [...this.#jobs.values()].map(({ ids, chunks }) => ({ ...ids, audio_chunks: chunks.length }));
    return { health: this.#stopping ? 'draining' : 'ready', active };
  }

  /** Sends a heartbeat, and outcomes that are not acknowledged; again after the interval, give or take a fifth. */
  #heartbeat() {
    clearTimeout(this.#timer);
    if (!this.#registered) return;
    this.#timer = setTimeout(() => this.#heartbeat(), this.#ack.heartbeat_interval_ms * (0.8 + 0.4 * Math.random()));
    this.connection.send({ type: 'node_heartbeat', epoch: this.#ack.epoch, hb_seq: ++this.#heartbeats, ...this.#state() });
    for (const job of this.#jobs.values()) this.#report(job, job.outcome);
  }

  #receive(message) {
    const job = this.#jobs.get(key(message));
    switch (message.type) {
      case 'node_register_ack': return this.#acknowledged(message);
      case 'job_assign': return this.#assign(message, job);
      case 'job_result_ack': // accepted or not, the job is over for this node
        if (!message.accepted) log(`job ${message.job_id}: the outcome is not accepted: ${message.error}`);
        return this.#forget(job);
      case 'job_cancel':
        log(`job ${message.job_id}: cancelled`);
        this.#forget(job);
        return this.connection.send({ type: 'job_cancelled', ...ids(message) });
      case 'drain': this.#drained = message.drained; return log(message.drained ? 'drained' : 'no longer drained');
      case 'go_away': return this.connection.move(message);
      case 'error': return message.fatal || log(`error ${message.error}: ${message.detail}`);
      case 'warning': return log(`warning ${message.code}: ${message.detail}`);
    }
  }

  /** The node is registered, or continues after a lost connection. The scheduler may send this again by itself, with a new epoch. */
  #acknowledged(ack) {
    log(`${ack.status} as ${ack.node_id}`);
    if (ack.epoch !== this.#ack.epoch) this.#heartbeats = 0;
    this.#ack = ack;
    this.#registered = true;
    this.#drained = false; // otherwise a drain message follows
    for (const each of ack.cancel ?? []) this.#forget(this.#jobs.get(key(each))); // another node has it, or it has ended
    for (const each of ack.no_audio ?? []) {
      const job = this.#jobs.get(key(each));
      if (job && !job.complete) job.outcome = { type: 'job_fail', reason: 'AUDIO_LOST' };
    }
    for (const job of this.#jobs.values()) this.#report(job, { type: 'job_ack' }); // the earlier one may be lost
    this.#heartbeat(); // with the outcomes
  }

  #assign(message, known) {
    if (known) return this.#report(known, { type: 'job_ack' }); // it came twice: confirm it again, do it once
    const working = [...this.#jobs.values()].filter((job) => !job.outcome).length;
    if (this.#drained || this.#stopping || working >= this.slots) {
      return this.connection.send({ type: 'job_reject', ...ids(message), reason: 'NODE_BUSY' });
    }
    log(`job ${message.job_id}: assigned`);
    const job = { ids: ids(message), assignment: message, chunks: [], complete: false, abort: new AbortController() };
    this.#jobs.set(key(message), job);
    this.#report(job, { type: 'job_ack' });
    const { url, ref } = message.audio ?? { ref: 'none' };
    if (url) this.#work(job, fetchAudio(url, job.abort.signal));
    else if (ref) this.#work(job, Buffer.alloc(0)); // otherwise the audio follows in binary frames
  }

  /** Receives a binary frame: the length of the header in four bytes, the header, audio. After a reconnect chunks may come again. */
  #receiveAudio(frame) {
    const start = 4 + frame.readUInt32BE(0);
    const header = JSON.parse(frame.subarray(4, start));
    const job = this.#jobs.get(key(header));
    if (!job || job.complete || job.outcome || header.chunk !== job.chunks.length) return;
    job.chunks.push(frame.subarray(start));
    if (header.last) this.#work(job, Buffer.concat(job.chunks));
  }

  async #work(job, audio) {
    job.complete = true;
    const signal = AbortSignal.any([job.abort.signal, AbortSignal.timeout(job.assignment.timeout_ms)]);
    try {
      this.#finish(job, { type: 'job_result', result: await translate(await audio, job.assignment, signal) });
    } catch (error) {
      if (job.abort.signal.aborted) return;
      log(`job ${job.ids.job_id}: ${error.message}`);
      this.#finish(job, { type: 'job_fail', reason: error.reason ?? (signal.aborted ? 'DEADLINE_EXCEEDED' : 'NODE_FAILED') });
    }
  }

  /** Sends the outcome of a job, and keeps it until it is acknowledged. */
  #finish(job, outcome) {
    job.outcome = outcome;
    this.#report(job, outcome);
  }

  #report(job, message) { if (message && this.#registered) this.connection.send({ ...message, ...job.ids }); }

  #forget(job) {
    if (!job) return;
    job.abort.abort();
    this.#jobs.delete(key(job.ids));
    this.#leaveIfIdle();
  }
}

const ids = ({ job_id, attempt_id }) => ({ job_id, attempt_id });
const key = ({ job_id, attempt_id }) => `${job_id} ${attempt_id}`;

/** Fetches the audio of a job. The URL holds its own permission: send no token with it. If its instance is gone, fail soon. */
async function fetchAudio(url, signal) {
  try {
    const response = await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(5000)]), redirect: 'error' });
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    return Buffer.from(await response.arrayBuffer());
  } catch (error) {
    throw Object.assign(new Error(`no audio: ${error.cause?.message ?? error.message}`), { reason: 'AUDIO_LOST' });
  }
}

const { values } = commandLine(usage, {
  id: { type: 'string', default: 'javascript-node' }, langs: { type: 'string', default: 'en,es' }, slots: { type: 'string', default: '4' },
});
await main(() => {
  const node = new Node(values);
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => node.stop());
  return node.run();
});
