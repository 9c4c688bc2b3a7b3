// A connection to one of several instances, which reconnects after every loss until it is refused for good.

import { EventEmitter } from 'node:events'
import { performance } from 'node:perf_hooks'
import WebSocket from 'ws'

const FIRST_BACKOFF_MS = 100
const MAX_BACKOFF_MS = 3000
const ANSWER_MS = 5000 // the limit for the upgrade, and for the answer to the first message
export const KEEPALIVE_MS = 1500 // how often a message comes; the first message of every connection asks for it
const SILENT_CHECKS = 5 // checks, of half an interval each, without anything received after which the connection is dead

// Close codes after which a reconnect cannot succeed: 44xx, and the protocol errors of RFC 6455.
const isFinal = (code) => (code >= 4400 && code < 4500) || code === 1002 || code === 1007

// Events: open, message (an object), binary (bytes), beforePong, lost, refused ({code, error}).
export class Connection extends EventEmitter {
  // otherInstance: connect to another instance after any loss. Otherwise the same one is tried first, because it still has the
  // audio or the jobs.
  constructor({ addresses, path, token, orderedPongs = true, otherInstance = false }) {
    super()
    Object.assign(this, { addresses, path, token, orderedPongs, otherInstance })
    this.addressIndex = 0
    this.failures = 0
    this.closed = false
    this.gaveUpUnanswered = false // the last connection was closed before its first message was answered
    // shouldRetry lets the owner reconnect once more after a close code that is final otherwise.
    this.shouldRetry = () => false
  }

  connect() {
    const headers = this.token ? { Authorization: `Bearer ${this.token}` } : {}
    const address = this.addresses[this.addressIndex % this.addresses.length]
    const socket = new WebSocket(`ws://${address}${this.path}`, 'lingua.v1', {
      headers, handshakeTimeout: ANSWER_MS, perMessageDeflate: false, autoPong: false,
    })
    this.socket = socket
    this.address = address
    this.established = false
    this.leaving = false
    this.silent = false // nothing was received for too long
    this.lastError = null
    let status = 0
    const watchdog = this.#startWatchdog(socket)

    socket.on('unexpected-response', (_, response) => {
      status = response.statusCode
      this.lastError = { retry_after_ms: 1000 * Number(response.headers['retry-after'] ?? 0) }
      socket.terminate()
    })
    socket.on('error', () => {}) // a close follows
    socket.on('open', () => this.emit('open'))
    socket.on('ping', (nonce) => {
      // A pong says that no audio is under way, so audio that was recorded before is sent first.
      if (this.orderedPongs) this.emit('beforePong')
      socket.pong(nonce)
    })
    socket.on('message', (data, isBinary) => {
      if (socket !== this.socket) return
      if (isBinary) return void this.emit('binary', data)
      const message = JSON.parse(data.toString('utf8'))
      if (message.type === 'error' && message.fatal) this.lastError = message
      this.emit('message', message)
    })
    socket.on('close', (code) => {
      clearInterval(watchdog)
      if (socket !== this.socket) return
      this.emit('lost', { code, http_status: status, address })
      if (this.closed) return
      const shouldRetry = isFinal(code) && this.shouldRetry(code)
      this.gaveUpUnanswered = !this.established
      const refusedUpgrade = status >= 400 && status < 500 && status !== 429
      if (refusedUpgrade || (isFinal(code) && !shouldRetry)) {
        this.closed = true
        this.emit('refused', { code: refusedUpgrade ? status : code, error: this.lastError })
        return
      }
      this.#reconnect(code)
    })
  }

  // establish is called when the first message was accepted: a close after it is a loss, not a failure to connect.
  establish() {
    this.established = true
    this.failures = 0
  }

  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message))
  }

  sendBinary(bytes) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(bytes)
  }

  // leaveInstance closes the connection after go_away, at a random time within the first half of the given time.
  leaveInstance(withinMs) {
    if (this.leaving) return
    this.leaving = true
    const socket = this.socket
    setTimeout(() => {
      if (socket === this.socket) this.#close(socket)
    }, Math.random() * withinMs / 2)
  }

  close() {
    this.closed = true
    this.#close(this.socket)
  }

  #close(socket) {
    socket.close(1000)
    setTimeout(() => socket.terminate(), 1000).unref()
  }

  #reconnect(code) {
    const { established, leaving, silent } = this
    if (leaving || silent || !established || this.otherInstance || code === 4503) this.addressIndex++
    const backoff = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** this.failures++)
    const retryAfter = this.lastError?.retry_after_ms ?? 0
    const delay = leaving ? 0 : retryAfter + Math.random() * backoff
    setTimeout(() => this.closed || this.connect(), delay)
  }

  #startWatchdog(socket) {
    const began = performance.now()
    let silent = 0
    for (const event of ['message', 'ping']) socket.on(event, () => { silent = 0 })
    return setInterval(() => {
      silent++
      if (this.established ? silent < SILENT_CHECKS : performance.now() - began < ANSWER_MS) return
      this.silent = true
      socket.terminate()
    }, KEEPALIVE_MS / 2)
  }
}
