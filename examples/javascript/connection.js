// A connection to one of several schedulers, which is opened again whenever it is lost. node.js and session.js use it.
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import WebSocket from 'ws';

/**
 * How often at least the scheduler is asked to send a message. It is part of the first message of every connection, as keepalive_ms. When nothing
 * comes for two and a half times as long, the instance hangs or is gone.
 */
export const KEEPALIVE_MS = 1500;

/** Writes a line for people; standard output is for results. */
export const log = (line) => console.error(line);

/** Parses the command line: the options of a connection, and those of the program. A mistake ends the program with code 2. */
export function commandLine(usage, options) {
  try {
    const parsed = parseArgs({
      allowPositionals: true,
      options: {
        url: { type: 'string', multiple: true, default: [process.env.LINGUA_URL ?? 'http://127.0.0.1:5010'] },
        token: { type: 'string', default: process.env.LINGUA_TOKEN }, help: { type: 'boolean', short: 'h' }, ...options,
      },
    });
    if (!parsed.values.help) return parsed;
    console.log(usage);
    process.exit(0);
  } catch (error) {
    log(`${usage}\n\n${error.message}`);
    process.exit(2);
  }
}

/** Runs a program. An error ends it with code 1. */
export async function main(run) {
  try {
    await run();
  } catch (error) {
    log(error.constructor === Error ? error.message : error.stack); // another kind of error is a mistake in the program
    process.exit(1);
  }
}

export class Connection {
  #socket; // the last one, open or not
  #stop = new AbortController();
  #elsewhere = false; // the next connection should be to another instance
  #unanswered = false; // a connection was lost between its first message and the answer

  /**
   * @param {{url: string[], token?: string}} options the schedulers, which share a store, and the credential
   * @param {string} path /ws/node or /ws/session
   * @param handlers opened() sends the first message; text(message) and binary(bytes) receive; pinged() sends what is due before
   *   a ping is answered; closed() learns that what was sent may be lost; restart(code) returns whether to connect again after a
   *   close code of 44xx, which means that the scheduler would refuse the same again
   */
  constructor({ url, token }, path, handlers) {
    const wrong = url.find((each) => !/^(http|ws)s?:\/\//.test(each));
    if (wrong !== undefined) throw new Error(`${wrong}: not the URL of a scheduler, such as http://127.0.0.1:5010`);
    this.urls = url.map((each) => each.replace(/^http/, 'ws').replace(/\/+$/, '') + path);
    this.headers = token ? { Authorization: `Bearer ${token}` } : {};
    this.handlers = handlers;
  }

  /** Sends an object as JSON, or bytes as a binary frame. Without a connection it is dropped: send it again after the next one. */
  send(message) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#socket.send(message instanceof Uint8Array ? message : JSON.stringify(message));
  }

  /** Answers go_away: connects to another instance, at a random moment of the first half of the time that is left. */
  move({ reason, reconnect_ms: withinMs }) {
    log(`going to another instance: ${reason}`);
    const socket = this.#socket;
    setTimeout(() => {
      if (socket !== this.#socket) return; // it was lost meanwhile
      this.#elsewhere = true;
      socket.close(1000);
    }, Math.random() * withinMs / 2).unref();
  }

  /** Closes the connection for good. */
  stop() {
    this.#stop.abort();
    this.#socket?.close(1000);
  }

  /** Keeps a connection open until stop is called. Throws if the scheduler refuses the client and would refuse the same again. */
  async run() {
    let at = Math.floor(Math.random() * this.urls.length); // so that clients spread over the instances
    for (let failures = 0; !this.#stop.signal.aborted;) {
      const url = this.urls[at];
      const began = performance.now();
      const end = await this.#connect(url);
      this.handlers.closed();
      if (this.#stop.signal.aborted) return;
      const why = `${url}: ${end.detail ?? `closed with ${end.code}`}`;
      if (this.#isFinal(end) && !this.handlers.restart?.(end.code)) throw new Error(why);
      log(`connecting again: ${why}`);
      if (performance.now() - began > 5000) failures = 0;
      const round = Math.floor(failures++ / this.urls.length);
      const wait = (end.retryAfter ?? 0) + Math.random() * Math.min(5000, 200 * 2 ** round);
      // The instance that had the connection still has its audio: try it first, unless it stops or cannot be reached.
      if (!end.answered || end.code === 4503 || this.#elsewhere) at = (at + 1) % this.urls.length;
      this.#elsewhere = false;
      await sleep(wait, undefined, this.#stop).catch(() => {}); // stop ends the wait
    }
  }

  /** Tells whether a connection that ended so would end so again. */
  #isFinal({ opened, answered, code, status }) {
    // A first message whose answer was lost may arrive after the next one, and replace that connection: 4409, once.
    const replacedByOwn = code === 4409 && this.#unanswered;
    if (replacedByOwn) this.#unanswered = false;
    else if (opened && !answered && code < 4000) this.#unanswered = true;
    const refused = status >= 400 && status < 500 && status !== 429; // before the upgrade, such as 401
    return refused || (code >= 4400 && code < 4500 && !replacedByOwn) || code === 1002 || code === 1007;
  }

  /** Opens a connection and resolves when it has ended, with how it ended. */
  #connect(url) {
    return new Promise((resolve) => {
      const end = { opened: false, answered: false };
      const handshakeTimeout = this.urls.length > 1 ? 3000 : 10_000; // an instance that hangs accepts connections, and answers nothing
      const socket = new WebSocket(url, 'lingua.v1', { headers: this.headers, handshakeTimeout, autoPong: false });
      this.#socket = socket;
      let promised = false; // messages come as often as they were asked for
      // Half intervals without anything, or, before the answer, since the beginning. A single timer would also run out while this program stood still.
      let silent = 0;
      const heard = () => { if (end.answered) silent = 0; };
      const alive = setInterval(() => {
        if (++silent >= (end.answered ? 5 : 14)) {
          this.#elsewhere = true;
          return socket.terminate(); // a close would wait for an answer
        }
        if (!promised && socket.readyState === WebSocket.OPEN) socket.ping(); // a scheduler that does not know keepalive_ms
      }, KEEPALIVE_MS / 2);
      socket.on('open', () => {
        end.opened = true;
        this.handlers.opened();
      });
      socket.on('pong', heard);
      socket.on('ping', (data) => {
        heard();
        this.handlers.pinged?.(); // a pong means that no audio is on its way
        socket.pong(data);
      });
      socket.on('message', (data, isBinary) => {
        heard();
        if (isBinary) return this.handlers.binary(data);
        const message = JSON.parse(data);
        if (message.type !== 'error') end.answered = true;
        if (message.keepalive_ms) promised = true;
        if (message.fatal) Object.assign(end, { detail: `${message.error}: ${message.detail}`, retryAfter: message.retry_after_ms });
        this.handlers.text(message);
      });
      socket.on('unexpected-response', (_, response) => {
        Object.assign(end, { status: response.statusCode, detail: `HTTP ${response.statusCode} ${response.statusMessage}` });
        socket.terminate();
      });
      socket.on('error', (error) => { end.detail ??= error.message; });
      socket.on('close', (code) => {
        clearInterval(alive);
        resolve({ ...end, code });
      });
    });
  }
}
