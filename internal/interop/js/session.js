// A session: audio in, exactly one terminal message per utterance out, over any number of lost connections.

import { createHash, randomBytes } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { performance } from 'node:perf_hooks'
import { Connection } from './connection.js'

// Events: started, resumed, committed, terminal, partial, warning, problem (an error that is neither fatal nor terminal),
// lost, moving, ended, refused.
export class Session extends EventEmitter {
  constructor({ addresses, token, sessionId, langs, segmentation, inChunks = false, forgetful = false, ...connection }) {
    super()
    this.setup = {
      type: 'session_start', session_id: sessionId, resume_token: randomBytes(24).toString('base64url'), langs, segmentation,
      audio: { encoding: 'pcm_s16le', sample_rate: 16000, channels: 1, framing: 'numbered' }, partials: true,
    }
    this.inChunks = inChunks
    this.forgetful = forgetful // drops audio at the commit, against the rule: what AUDIO_LOST is for
    this.begun = false // there is a session to be resumed
    this.lastSeq = 0 // of the durable messages
    this.kept = [] // audio frames, without a gap, until the terminal message of their utterance
    this.produced = 0 // the number of the last audio frame
    this.cursor = 0 // the next frame to send on this connection; 0: not yet
    this.utterance = null // what the frames that follow belong to
    this.committed = new Map() // by utterance_index, until the terminal message
    this.resumedAt = 0
    this.ending = false
    this.startsSent = 0

    this.connection = new Connection({ addresses, path: '/ws/session', token, ...connection })
    this.connection.worthRetrying = (code) => this.#replacedByOwnStart(code)
    this.connection.on('open', () => this.#hello())
    this.connection.on('message', (message) => this.#receive(message))
    this.connection.on('beforePong', () => this.emit('beforePong'))
    this.connection.on('lost', (how) => {
      this.cursor = 0
      this.emit('lost', how)
    })
    this.connection.on('refused', (why) => this.emit('refused', why))
  }

  start() {
    this.connection.connect()
  }

  // begin starts an utterance with its first frame; without a name, binary frames just follow.
  begin({ utteranceId, requestId } = {}) {
    this.utterance = { utteranceId, requestId, begun: false }
  }

  audio(bytes) {
    this.#produce({ bytes })
  }

  // The end of an utterance is an audio frame without data: it has a number, so a resend puts it where it was.
  final() {
    this.#produce({ isFinal: true })
  }

  end() {
    this.ending = true
    if (this.cursor) this.connection.send({ type: 'session_end' })
  }

  // What was sent as the frames first to last; null for what is no longer here.
  sent(first, last) {
    const offset = this.kept.length ? this.kept[0].seq : this.produced + 1
    if (first < offset || last > this.produced) return null
    const hash = createHash('sha256')
    let bytes = 0
    for (const frame of this.kept.slice(first - offset, last - offset + 1)) {
      if (!frame.bytes) continue
      hash.update(frame.bytes)
      bytes += frame.bytes.length
    }
    return { sha256: hash.digest('hex'), bytes }
  }

  #produce(frame) {
    frame.seq = ++this.produced
    frame.utterance = this.utterance ?? {}
    frame.begins = !frame.utterance.begun
    frame.utterance.begun = true
    this.kept.push(frame)
    this.#pump()
  }

  #pump() {
    if (!this.cursor || !this.kept.length) return
    const offset = this.kept[0].seq
    if (this.cursor < offset) return // audio_gone was sent; its audio_ack says where to go on
    for (; this.cursor <= this.produced; this.cursor++) this.#transmit(this.kept[this.cursor - offset])
  }

  #transmit({ seq, bytes, isFinal, begins, utterance: { utteranceId, requestId } }) {
    if (isFinal || this.inChunks) {
      this.connection.send({
        type: 'audio_chunk', seq, utterance_id: utteranceId, data: bytes?.toString('base64'), is_final: isFinal,
        request_id: begins ? requestId : undefined,
      })
      return
    }
    if (begins && utteranceId) this.connection.send({ type: 'utterance_start', utterance_id: utteranceId, request_id: requestId })
    const number = Buffer.alloc(8)
    number.writeBigUInt64BE(BigInt(seq))
    this.connection.sendBinary(Buffer.concat([number, bytes]))
  }

  // A start that was repeated is replaced by the first one if that arrives after all. That is worth one resume.
  #replacedByOwnStart(code) {
    if (code !== 4409 || this.begun || this.startsSent < 2) return false
    this.begun = true
    return true
  }

  #hello() {
    if (!this.begun) {
      this.startsSent++
      this.connection.send(this.setup)
      return
    }
    const { session_id, resume_token } = this.setup
    this.connection.send({ type: 'session_resume', session_id, resume_token, last_seq: this.lastSeq })
  }

  #receive(message) {
    switch (message.type) {
      case 'session_started':
        this.begun = true
        this.#ready(1)
        this.emit('started', message)
        break
      case 'session_resumed':
        this.#resumed(message)
        break
      case 'audio_ack':
        this.#skip(message.seq)
        break
      case 'utterance_committed':
        this.#commit(message)
        break
      case 'result':
        this.#terminal(message)
        break
      case 'error':
        if (message.utterance_index !== undefined) this.#terminal(message)
        else if (!message.fatal) this.emit('problem', message)
        break
      case 'go_away':
        this.emit('moving', message)
        this.connection.move(message.reconnect_ms)
        break
      case 'session_ended':
        this.connection.close()
        this.emit('ended', message)
        break
      case 'partial':
      case 'warning':
        this.emit(message.type, message)
        break
    }
  }

  #ready(nextAudio) {
    this.connection.establish()
    this.cursor = nextAudio
    this.#pump()
    if (this.ending) this.connection.send({ type: 'session_end' })
  }

  #resumed(message) {
    this.resumedAt = performance.now()
    const offset = this.kept.length ? this.kept[0].seq : this.produced + 1
    for (const needed of message.audio_needed ?? []) {
      if (needed.first_seq < offset) this.connection.send({ type: 'audio_gone', utterance_index: needed.utterance_index })
    }
    this.emit('resumed', message)
    this.#ready(message.next_audio_seq)
  }

  // After audio_gone an acknowledgement leads past what is not here any more; any other changes nothing.
  #skip(seq) {
    if (!this.cursor || seq < this.cursor) return
    this.cursor = seq + 1
    this.#pump()
  }

  #commit(message) {
    const before = this.committed.get(message.utterance_index)
    this.committed.set(message.utterance_index, { ...message, at: before?.at ?? performance.now() })
    if (this.forgetful) this.#forget(message.last_seq)
    this.emit('committed', message, before)
  }

  #terminal(message) {
    const repeated = message.seq <= this.lastSeq
    this.lastSeq = Math.max(this.lastSeq, message.seq)
    this.connection.send({ type: 'result_ack', seq: this.lastSeq })
    const span = this.committed.get(message.utterance_index)
    this.committed.delete(message.utterance_index)
    const sent = span && this.sent(span.first_seq, span.last_seq)
    const tookMs = span && performance.now() - Math.max(span.at, this.resumedAt)
    if (span) this.#forget(span.last_seq)
    this.emit('terminal', { message, span, sent, tookMs, repeated })
  }

  #forget(seq) {
    const still = this.kept.findIndex((frame) => frame.seq > seq)
    this.kept.splice(0, still < 0 ? this.kept.length : still)
  }
}
