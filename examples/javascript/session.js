#!/usr/bin/env node
// A session: it sends audio at the pace of speech and prints the result of every utterance as one line of JSON.
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Connection, KEEPALIVE_MS, commandLine, log, main } from './connection.js';

const usage = `node session.js [--url URL]... [--token TOKEN] [--from en] [--to es] [--mode auto] [--rate 16000] [FILE...]

  --url    a scheduler; repeat it for every instance (default: $LINGUA_URL or http://127.0.0.1:5010)
  --token  the session's token, from POST /v1/sessions (default: $LINGUA_TOKEN); a scheduler without keys requires none
  --from   the language of the audio
  --to     the language of the translation
  --mode   what ends an utterance: auto, a pause in the audio; manual, the end of a file
  --rate   the samples per second of raw PCM

FILE is a WAV file (PCM of 16 bits, mono) or raw PCM of the same kind. Without a file it sends three seconds of a tone.`;

const FRAME_MS = 100;

class Session {
  #source; // frames of the recordings
  #due = performance.now(); // when the next of them is there
  #captured = false; // there are no more
  #kept = []; // frames whose utterance has not ended: the scheduler may ask for them again
  #first = 1; // the number of the first of them
  #next = 1; // the number of the next frame to send
  #lastSeq = 0; // of the terminal messages that were received
  #nextIndex = 0; // of the next utterance to end
  #printed = 0;
  #live = false; // the session was started or resumed on this connection
  #endSent = false; // on this connection
  #budget = 0; // milliseconds of audio that may be sent: time adds to it, every frame takes from it
  #paced = 0; // when time was last added

  constructor(options, recordings, rate) {
    this.start = {
      type: 'session_start', langs: [options.from, options.to], segmentation: { mode: options.mode },
      audio: { encoding: 'pcm_s16le', sample_rate: rate, framing: 'numbered' }, keepalive_ms: KEEPALIVE_MS,
    };
    this.#source = frames(recordings, 2 * Math.floor(rate * FRAME_MS / 1000), options.mode === 'manual'); // whole samples
    this.connection = new Connection(options, '/ws/session', {
      opened: () => this.#open(),
      text: (message) => this.#receive(message),
      binary: () => {}, // speech, which comes only if session_start asks for it
      pinged: () => this.#sendAudio(),
      closed: () => { this.#live = false; },
      restart: (code) => this.#restart(code),
    });
  }

  run() {
    const timer = setInterval(() => this.#sendAudio(), FRAME_MS / 2);
    return this.connection.run().finally(() => clearInterval(timer));
  }

  #open() {
    this.#endSent = false;
    // A secret of our own makes session_start repeatable: if its answer is lost, the repeated one gets the same session.
    this.start.resume_token ??= randomBytes(16).toString('hex');
    this.connection.send(this.id
      ? { type: 'session_resume', session_id: this.id, resume_token: this.start.resume_token, last_seq: this.#lastSeq, keepalive_ms: KEEPALIVE_MS }
      : this.start);
  }

  /** The scheduler does not know the session any more (4404): starts another with all audio that has no result. */
  #restart(code) {
    if (code !== 4404 || !this.id) return false;
    log(`session ${this.id} is lost: starting another`);
    this.id = this.start.resume_token = undefined;
    this.#first = this.#next = 1;
    this.#lastSeq = this.#nextIndex = 0;
    return true;
  }

  #receive(message) {
    switch (message.type) {
      case 'session_started':
        log(`session ${message.session_id} has started`);
        this.id = message.session_id;
        this.#budget = message.limits.buffered_ms / 2;
        this.#paced = performance.now();
        this.#live = true;
        break;
      case 'session_resumed': {
        log(`session ${message.session_id} goes on at audio frame ${message.next_audio_seq}`);
        const next = Math.max(this.#first, message.next_audio_seq); // ended utterances may be left out
        this.#budget += (this.#next - next) * FRAME_MS; // what is sent again is not ahead of real time
        this.#next = next;
        this.#live = true;
        break;
      }
      case 'result': this.#ended(message, { text_src: message.text_src, text_tgt: message.text_tgt }); break;
      case 'error':
        if (message.utterance_index !== undefined) this.#ended(message, { error: message.error, reason: message.reason, detail: message.detail });
        else if (!message.fatal) log(`error ${message.error}: ${message.detail}`);
        break;
      case 'warning': log(`warning ${message.code}: ${message.detail}`); break;
      case 'go_away': this.connection.move(message); break;
      case 'session_ended': this.connection.stop(); break;
    }
  }

  /** An utterance has ended with a result or an error. They come in order, each once; its audio is not needed any more. */
  #ended({ seq, utterance_index: index, last_seq: last }, outcome) {
    if (seq <= this.#lastSeq) return;
    this.#lastSeq = seq;
    this.connection.send({ type: 'result_ack', seq });
    const print = (fields) => console.log(JSON.stringify({ utterance: this.#printed++, ...fields }));
    for (; this.#nextIndex < index; this.#nextIndex++) print({ error: 'RESULT_LOST' }); // a resume was not recovered
    print(outcome);
    this.#nextIndex++;
    this.#kept.splice(0, last + 1 - this.#first);
    this.#first = last + 1;
    this.#next = Math.max(this.#next, this.#first);
  }

  /** Sends the audio that is due, and session_end after the last of it. Audio is recorded also while there is no connection. */
  #sendAudio() {
    const now = performance.now();
    for (; !this.#captured && this.#due <= now; this.#due += FRAME_MS) {
      const { value: frame, done } = this.#source.next();
      if (done) this.#captured = true;
      else this.#kept.push(frame);
    }
    if (!this.#live) return;
    this.#budget += now - this.#paced; // after a cut also the time without a connection
    this.#paced = now;
    const end = this.#first + this.#kept.length;
    for (; this.#next < end && this.#budget >= FRAME_MS; this.#next++, this.#budget -= FRAME_MS) {
      this.connection.send(encode(this.#next, this.#kept[this.#next - this.#first]));
    }
    if (this.#captured && this.#next === end && !this.#endSent) {
      this.#endSent = true;
      this.connection.send({ type: 'session_end' });
    }
  }
}

/** Cuts recordings into frames. If the end of a recording ends an utterance, its last frame says so. */
function* frames(recordings, size, endsUtterance) {
  for (const audio of recordings) {
    for (let at = 0; at < audio.length; at += size) {
      yield { audio: audio.subarray(at, at + size), isFinal: endsUtterance && at + size >= audio.length };
    }
  }
}

/** Returns the message for a frame: its number in eight bytes and the audio, or an audio_chunk, which can end an utterance. */
function encode(seq, { audio, isFinal }) {
  if (isFinal) return { type: 'audio_chunk', seq, data: audio.toString('base64'), is_final: true };
  const number = Buffer.alloc(8);
  number.writeBigUInt64BE(BigInt(seq));
  return Buffer.concat([number, audio]);
}

/** Returns the samples of a file and their rate. */
function readAudio(file, rate) {
  const bytes = readFileSync(file);
  if (bytes.toString('latin1', 0, 4) !== 'RIFF') return { rate, audio: bytes.subarray(0, bytes.length & ~1) };
  const chunks = {}; // of the WAV file, by name
  for (let at = 12; at + 8 <= bytes.length;) {
    const size = bytes.readUInt32LE(at + 4);
    chunks[bytes.toString('latin1', at, at + 4)] = bytes.subarray(at + 8, at + 8 + size);
    at += 8 + size + size % 2;
  }
  const { 'fmt ': format, data } = chunks;
  if (!data || format?.readUInt16LE(0) !== 1 || format.readUInt16LE(2) !== 1 || format.readUInt16LE(14) !== 16) {
    throw new Error(`${file}: not a WAV file with PCM of 16 bits, mono`);
  }
  return { rate: format.readUInt32LE(4), audio: data.subarray(0, data.length & ~1) };
}

/** Returns three seconds of a tone. */
function tone(rate) {
  return { rate, audio: Buffer.from(Int16Array.from({ length: 3 * rate }, (_, i) => 8000 * Math.sin(2 * Math.PI * 440 * i / rate)).buffer) };
}

const { values, positionals: files } = commandLine(usage, {
  from: { type: 'string', default: 'en' }, to: { type: 'string', default: 'es' },
  mode: { type: 'string', default: 'auto' }, rate: { type: 'string', default: '16000' },
});
await main(() => {
  const recordings = files.length ? files.map((file) => readAudio(file, Number(values.rate))) : [tone(Number(values.rate))];
  const rates = new Set(recordings.map(({ rate }) => rate));
  if (rates.size > 1) throw new Error(`the files have different sample rates: ${[...rates].join(', ')}`);
  const [rate] = rates;
  if (!(rate >= 8000 && rate <= 48000)) throw new Error(`the sample rate is ${rate}; it must be from 8000 to 48000`);
  return new Session(values, recordings.map(({ audio }) => audio), rate).run();
});
