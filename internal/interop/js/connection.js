// A connection to one of several instances, made again after every loss until it is refused for good.

import { EventEmitter } from 'node:events'
import { performance } from 'node:perf_hooks'
import WebSocket from 'ws'

const FIRST_BACKOFF_MS = 100
const MAX_BACKOFF_MS = 3000
const ANSWER_MS = 5000 // for the upgrade, and for the answer to the first message
const PING_MS = 4000
const DEAD_MS = 12000 // nothing at all was received for so long

// Codes after which coming back needs a change: of the 44xx, and what RFC 6455 says about broken peers.
const isFinal = (code) => (code >= 4400 && code < 4500) || code === 1002 || code === 1007

// Events: open, message (an object), binary (bytes), beforePong, lost, refused ({code, error}).
export class Connection extends EventEmitter {
  // elsewhere: leave an instance after any loss. Otherwise it is tried first, for it still has the audio or the jobs.
  constructor({ addresses, path, token, orderedPongs = true, elsewhere = false }) {
    super()
    Object.assign(this, { addresses, path, token, orderedPongs, elsewhere })
    this.turn = 0
    this.failures = 0
    this.closed = false
    this.abandoned = false // a connection before this one was given up without an answer to its first message
    // worthRetrying lets the owner come back once more after a close code that is final otherwise.
    this.worthRetrying = () => false
  }

  connect() {
    const headers = this.token ? { Authorization: `Bearer ${this.token}` } : {}
    const address = this.addresses[this.turn % this.addresses.length]
    const socket = new WebSocket(`ws://${address}${this.path}`, 'lingua.v1', {
      headers, handshakeTimeout: ANSWER_MS, perMessageDeflate: false, autoPong: false,
    })
    this.socket = socket
    this.address = address
    this.established = false
    this.moving = false
    this.lastError = null
    let status = 0
    const watch = this.#watch(socket)

    socket.on('unexpected-response', (_, response) => {
      status = response.statusCode
      this.lastError = { retry_after_ms: 1000 * Number(response.headers['retry-after'] ?? 0) }
      socket.terminate()
    })
    socket.on('error', () => {}) // a close follows
    socket.on('open', () => this.emit('open'))
    socket.on('ping', (nonce) => {
      // A pong says that no audio was on its way, so audio that was recorded before goes first.
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
      clearInterval(watch)
      if (socket !== this.socket) return
      this.emit('lost', { code, http_status: status, address })
      if (this.closed) return
      const worthRetrying = isFinal(code) && this.worthRetrying(code)
      this.abandoned = !this.established
      const refusedUpgrade = status >= 400 && status < 500 && status !== 429
      if (refusedUpgrade || (isFinal(code) && !worthRetrying)) {
        this.closed = true
        this.emit('refused', { code: refusedUpgrade ? status : code, error: this.lastError })
        return
      }
      this.#again(code)
    })
  }

  // The owner has been registered or started: what follows is a loss, not a failure to connect.
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

  // The instance asked for it: leave at a random moment of the first half of the time it gave.
  move(withinMs) {
    if (this.moving) return
    this.moving = true
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

  #again(code) {
    const { established, moving } = this
    if (moving || !established || this.elsewhere || code === 4503) this.turn++
    const backoff = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** this.failures++)
    const asked = this.lastError?.retry_after_ms ?? 0
    const delay = moving ? 0 : asked + Math.random() * backoff
    setTimeout(() => this.closed || this.connect(), delay)
  }

  #watch(socket) {
    const began = performance.now()
    let heard = began
    for (const event of ['open', 'message', 'ping', 'pong']) socket.on(event, () => { heard = performance.now() })
    let pinged = began
    return setInterval(() => {
      const now = performance.now()
      if (now - heard > DEAD_MS || (!this.established && now - began > ANSWER_MS)) return void socket.terminate()
      if (now - pinged > PING_MS && socket.readyState === WebSocket.OPEN) {
        pinged = now
        socket.ping()
      }
    }, 500)
  }
}
