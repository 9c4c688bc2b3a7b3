// A node: it receives jobs over its socket and answers each with the hash and the length of its audio.

import { createHash } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { Connection, KEEPALIVE_MS } from './connection.js'

const REPEAT_MS = 1000 // how often a result is sent again until it is acknowledged

// Events: registered, assigned, done (acknowledged), cancelled, rejected, error_received, lost, go_away, refused, stopped.
export class Node extends EventEmitter {
  // neverAnswers: acknowledges jobs, lists them in its heartbeats, and never reports a result.
  constructor({ addresses, token, nodeId, langs, slots, workMs, neverAnswers = false, ...connection }) {
    super()
    this.declaration = { node_id: nodeId, semantic_langs: langs, max_concurrent_jobs: slots }
    Object.assign(this, { slots, workMs, neverAnswers })
    this.jobs = new Map() // by job and attempt: received, and the result not acknowledged
    this.epoch = null // set by node_register_ack
    this.heartbeats = 0 // within the epoch
    this.resumeToken = undefined
    this.drained = false
    this.stopping = false
    this.earlyMessages = null // messages that arrived before the answer to the registration

    this.connection = new Connection({ addresses, path: '/ws/node', token, ...connection })
    // An earlier registration that was not answered may arrive late and replace this one.
    this.connection.shouldRetry = (code) => code === 4409 && this.connection.gaveUpUnanswered
    this.connection.on('open', () => this.#register())
    this.connection.on('message', (message) => this.#receive(message))
    this.connection.on('binary', (bytes) => this.#receiveAudio(bytes))
    this.connection.on('lost', (how) => {
      clearTimeout(this.heartbeatTimer)
      this.earlyMessages = []
      this.emit('lost', how)
    })
    this.connection.on('refused', (why) => this.emit('refused', why))
  }

  start() {
    this.connection.connect()
  }

  // stop finishes its jobs and closes; it accepts no new job.
  stop() {
    this.stopping = true
    this.#heartbeat()
    this.#stopWhenIdle()
  }

  #active() {
    return [...this.jobs.values()].map(({ job_id, attempt_id, chunks }) => ({ job_id, attempt_id, audio_chunks: chunks }))
  }

  #register() {
    this.earlyMessages = []
    this.connection.send({
      type: 'node_register', ...this.declaration, health: this.stopping ? 'draining' : 'ready', resume_token: this.resumeToken,
      active: this.#active(), keepalive_ms: KEEPALIVE_MS,
    })
  }

  #heartbeat() {
    clearTimeout(this.heartbeatTimer)
    if (this.epoch === null || !this.connection.established) return
    this.connection.send({
      type: 'node_heartbeat', epoch: this.epoch, hb_seq: ++this.heartbeats, active: this.#active(),
      health: this.stopping ? 'draining' : 'ready',
    })
    this.heartbeatTimer = setTimeout(() => this.#heartbeat(), this.intervalMs * (0.8 + 0.4 * Math.random()))
  }

  #receive(message) {
    if (message.type === 'node_register_ack') return this.#registered(message)
    if (this.earlyMessages && message.type !== 'error') return void this.earlyMessages.push(message)
    switch (message.type) {
      case 'job_assign':
        this.#assign(message)
        break
      case 'job_result_ack':
        this.#acknowledged(message)
        break
      case 'job_cancel':
        this.#drop(message)
        this.connection.send({ type: 'job_cancelled', job_id: message.job_id, attempt_id: message.attempt_id })
        break
      case 'drain':
        this.drained = message.drained
        break
      case 'go_away':
        this.emit('go_away', message)
        this.connection.leaveInstance(message.reconnect_ms)
        break
      case 'error':
        if (!message.fatal) this.emit('error_received', message)
        break
    }
  }

  #registered(message) {
    const earlyMessages = this.earlyMessages ?? []
    this.earlyMessages = null
    if (message.epoch !== this.epoch) this.heartbeats = 0
    this.epoch = message.epoch
    this.resumeToken = message.resume_token
    this.declaration.node_id = message.node_id
    this.intervalMs = message.heartbeat_interval_ms
    this.connection.establish()
    for (const attempt of message.cancel ?? []) this.#drop(attempt)
    for (const attempt of message.no_audio ?? []) this.#failLostAudio(attempt)
    for (const job of this.jobs.values()) job.outcome ? this.#report(job) : this.#ack(job)
    this.#heartbeat()
    this.emit('registered', message)
    for (const early of earlyMessages) this.#receive(early)
  }

  #assign(message) {
    const key = keyOf(message)
    const known = this.jobs.get(key)
    if (known) return this.#ack(known)
    const working = [...this.jobs.values()].filter((job) => !job.outcome).length
    if (this.drained || this.stopping || working >= this.slots) {
      this.connection.send({ type: 'job_reject', job_id: message.job_id, attempt_id: message.attempt_id, reason: 'NODE_BUSY' })
      this.emit('rejected', message)
      return
    }
    const { job_id, attempt_id, audio } = message
    const job = { job_id, attempt_id, audio, chunks: 0, bytes: 0, hash: createHash('sha256'), complete: false, outcome: null, over: new AbortController() }
    this.jobs.set(key, job)
    this.#ack(job)
    this.emit('assigned', message)
    if (audio?.url) this.#fetch(job, message.timeout_ms)
  }

  #ack({ job_id, attempt_id }) {
    this.connection.send({ type: 'job_ack', job_id, attempt_id })
  }

  #receiveAudio(frame) {
    const headerLength = frame.readUInt32BE(0)
    const header = JSON.parse(frame.subarray(4, 4 + headerLength).toString('utf8'))
    const job = this.jobs.get(keyOf(header))
    // Ignore repeated chunks, chunks of ended jobs, and, after a reconnect, chunks of audio that was fetched from its URL.
    if (header.kind !== 'audio' || !job || job.complete || job.audio?.url || header.chunk !== job.chunks) return
    this.#addAudio(job, frame.subarray(4 + headerLength))
    job.chunks++
    if (header.last) this.#work(job, 'frames')
  }

  // failLostAudio fails a job whose missing audio this instance cannot send.
  #failLostAudio(attempt) {
    const job = this.jobs.get(keyOf(attempt))
    if (job && !job.complete && !job.audio?.url) job.outcome = { type: 'job_fail', reason: 'AUDIO_LOST' }
  }

  #addAudio(job, bytes) {
    job.hash.update(bytes)
    job.bytes += bytes.length
  }

  async #fetch(job, timeoutMs) {
    try {
      const signal = AbortSignal.any([job.over.signal, AbortSignal.timeout(timeoutMs)])
      const response = await fetch(job.audio.url, { signal })
      if (!response.ok) throw new Error(`HTTP ${response.status}`)
      this.#addAudio(job, Buffer.from(await response.arrayBuffer()))
      this.#work(job, 'url')
    } catch (failure) {
      if (job.over.signal.aborted) return
      this.emit('error_received', { error: 'AUDIO_LOST', detail: String(failure) })
      this.#finish(job, { type: 'job_fail', reason: 'AUDIO_LOST' })
    }
  }

  #work(job, via) {
    const sha256 = job.hash.digest('hex')
    job.complete = true
    if (this.neverAnswers) return
    this.connection.send({ type: 'job_partial', job_id: job.job_id, attempt_id: job.attempt_id, rev: 1, stage: 'asr', text_src: sha256 })
    job.timer = setTimeout(() => this.#finish(job, {
      type: 'job_result',
      result: { text_src: sha256, text_tgt: sha256, sha256, bytes: job.bytes, via, node_id: this.declaration.node_id },
    }), this.workMs)
  }

  #finish(job, outcome) {
    job.outcome = outcome
    this.#report(job)
  }

  #report(job) {
    clearTimeout(job.timer)
    if (this.connection.established) this.connection.send({ ...job.outcome, job_id: job.job_id, attempt_id: job.attempt_id })
    job.timer = setTimeout(() => this.#report(job), REPEAT_MS)
  }

  #acknowledged(message) {
    if (this.#drop(message)) this.emit('done', message)
  }

  #drop(attempt) {
    const job = this.jobs.get(keyOf(attempt))
    if (!job) return false
    clearTimeout(job.timer)
    job.over.abort()
    this.jobs.delete(keyOf(attempt))
    this.#stopWhenIdle()
    return true
  }

  #stopWhenIdle() {
    if (!this.stopping || this.jobs.size > 0) return
    clearTimeout(this.heartbeatTimer)
    this.connection.close()
    this.emit('stopped')
  }
}

const keyOf = ({ job_id, attempt_id }) => `${job_id}/${attempt_id}`
