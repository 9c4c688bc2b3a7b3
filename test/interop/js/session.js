// A session: it sends audio and receives exactly one terminal message for each utterance, over any number of lost connections.

import { createHash, randomBytes } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { performance } from 'node:perf_hooks'
import { Connection, KEEPALIVE_MS } from './connection.js'

// Events: started, resumed, committed, terminal, partial, warning, error_received (an error that is neither fatal nor terminal),
// lost, go_away, ended, refused.
export class Session extends EventEmitter {
  constructor({ addresses, token, sessionId, langs, segmentation, inChunks = false, dropsAudio = false, ...connection }) {
    super()
    this.startMessage = {
      type: 'session_start', session_id: sessionId, resume_token: randomBytes(24).toString('base64url'), langs, segmentation,
      audio: { encoding: 'pcm_s16le', sample_rate: 16000, channels: 1, framing: 'numbered' }, partials: true,
      keepalive_ms: KEEPALIVE_MS,
    }
    this.inChunks = inChunks
    this.dropsAudio = dropsAudio // drops its audio at the commit, against the protocol: the cause of AUDIO_LOST
    this.started = false // the session exists and can be resumed
    this.lastSeq = 0 // of the durable messages
    this.frames = [] // audio frames, without a gap, until the terminal message of their utterance
    this.lastFrame = 0 // the number of the last audio frame
    this.nextToSend = 0 // the next frame to send on this connection; 0: the session is not ready
    this.utterance = null // the utterance of the next frames
    this.committed = new Map() // by utterance_index, until the terminal message
    this.resumedAt = 0
    this.ending = false
    this.startsSent = 0

    this.connection = new Connection({ addresses, path: '/ws/session', token, ...connection })
    this.connection.shouldRetry = (code) => this.#replacedByOwnStart(code)
    this.connection.on('open', () => this.#sendFirstMessage())
    this.connection.on('message', (message) => this.#receive(message))
    this.connection.on('beforePong', () => this.emit('beforePong'))
    this.connection.on('lost', (how) => {
      this.nextToSend = 0
      this.emit('lost', how)
    })
    this.connection.on('refused', (why) => this.emit('refused', why))
  }

  start() {
    this.connection.connect()
  }

  // begin sets the utterance of the next frames; without an id only binary frames are sent.
  begin({ utteranceId, requestId } = {}) {
    this.utterance = { utteranceId, requestId, started: false }
  }

  audio(bytes) {
    this.#addFrame({ bytes })
  }

  // final ends the utterance with an audio frame without data. It has a number, so that a resend keeps its position.
  final() {
    this.#addFrame({ isFinal: true })
  }

  end() {
    this.ending = true
    if (this.nextToSend) this.connection.send({ type: 'session_end' })
  }

  // sent returns the digest of the frames first to last; null if they were dropped.
  sent(first, last) {
    const offset = this.frames.length ? this.frames[0].seq : this.lastFrame + 1
    if (first < offset || last > this.lastFrame) return null
    const hash = createHash('sha256')
    let bytes = 0
    for (const frame of this.frames.slice(first - offset, last - offset + 1)) {
      if (!frame.bytes) continue
      hash.update(frame.bytes)
      bytes += frame.bytes.length
    }
    return { sha256: hash.digest('hex'), bytes }
  }

  #addFrame(frame) {
    frame.seq = ++this.lastFrame
    frame.utterance = this.utterance ?? {}
    frame.begins = !frame.utterance.started
    frame.utterance.started = true
    this.frames.push(frame)
    this.#sendPending()
  }

  #sendPending() {
    if (!this.nextToSend || !this.frames.length) return
    const offset = this.frames[0].seq
    if (this.nextToSend < offset) return // audio_gone was sent; its audio_ack says where to continue
    for (; this.nextToSend <= this.lastFrame; this.nextToSend++) this.#sendFrame(this.frames[this.nextToSend - offset])
  }

  #sendFrame({ seq, bytes, isFinal, begins, utterance: { utteranceId, requestId } }) {
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

  // A repeated start is replaced by the first one if that arrives late. One resume then succeeds.
  #replacedByOwnStart(code) {
    if (code !== 4409 || this.started || this.startsSent < 2) return false
    this.started = true
    return true
  }

  #sendFirstMessage() {
    if (!this.started) {
      this.startsSent++
      this.connection.send(this.startMessage)
      return
    }
    const { session_id, resume_token } = this.startMessage
    this.connection.send({ type: 'session_resume', session_id, resume_token, last_seq: this.lastSeq, keepalive_ms: KEEPALIVE_MS })
  }

  #receive(message) {
    switch (message.type) {
      case 'session_started':
        this.started = true
        this.#ready(1)
        this.emit('started', message)
        break
      case 'session_resumed':
        this.#resumed(message)
        break
      case 'audio_ack':
        this.#skipTo(message.seq)
        break
      case 'utterance_committed':
        this.#commit(message)
        break
      case 'result':
        this.#terminal(message)
        break
      case 'error':
        if (message.utterance_index !== undefined) this.#terminal(message)
        else if (!message.fatal) this.emit('error_received', message)
        break
      case 'go_away':
        this.emit('go_away', message)
        this.connection.leaveInstance(message.reconnect_ms)
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
    this.nextToSend = nextAudio
    this.#sendPending()
    if (this.ending) this.connection.send({ type: 'session_end' })
  }

  #resumed(message) {
    this.resumedAt = performance.now()
    const offset = this.frames.length ? this.frames[0].seq : this.lastFrame + 1
    for (const needed of message.audio_needed ?? []) {
      if (needed.first_seq < offset) this.connection.send({ type: 'audio_gone', utterance_index: needed.utterance_index })
    }
    this.emit('resumed', message)
    this.#ready(message.next_audio_seq)
  }

  // After audio_gone an acknowledgement moves past the dropped frames; any other changes nothing.
  #skipTo(seq) {
    if (!this.nextToSend || seq < this.nextToSend) return
    this.nextToSend = seq + 1
    this.#sendPending()
  }

  #commit(message) {
    const before = this.committed.get(message.utterance_index)
    this.committed.set(message.utterance_index, { ...message, at: before?.at ?? performance.now() })
    if (this.dropsAudio) this.#dropFrames(message.last_seq)
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
    if (span) this.#dropFrames(span.last_seq)
    this.emit('terminal', { message, span, sent, tookMs, repeated })
  }

  #dropFrames(seq) {
    const firstKept = this.frames.findIndex((frame) => frame.seq > seq)
    this.frames.splice(0, firstKept < 0 ? this.frames.length : firstKept)
  }
}
