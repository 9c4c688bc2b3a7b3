// Sends the utterances of a script over a session in real time and prints events, one JSON object a line.
// Usage: node run-session.js '{"addresses": [...], "session_id": "…", "utterances": [{"ms": 2000, "end": "final"}], …}'
// It ends when its standard input does, so that it never outlives its parent.

import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { performance } from 'node:perf_hooks'
import { Session } from './session.js'
import { FRAME_MS, frames } from './audio.js'

const script = JSON.parse(process.argv[2])
const startTime = performance.now()
const print = (event, fields = {}) => process.stdout.write(JSON.stringify({ event, at_ms: Math.round(performance.now() - startTime), ...fields }) + '\n')

process.stdin.resume().on('end', () => process.exit(1))

const session = new Session({
  addresses: script.addresses, token: script.token, sessionId: script.session_id, langs: ['en', 'es'],
  segmentation: { pause_ms: 1000, ...script.segmentation }, inChunks: script.in_chunks, dropsAudio: script.drops_audio,
  orderedPongs: !script.unordered_pongs, otherInstance: script.other_instance,
})

session.on('started', ({ session_id, limits }) => print('started', { session_id, limits, address: session.connection.address }))
session.on('resumed', ({ recovered, next_audio_seq, last_seq, open_utterance, audio_needed }) =>
  print('resumed', { recovered, next_audio_seq, last_seq, open_utterance, audio_needed, address: session.connection.address }))
session.on('committed', ({ utterance_index, utterance_id, request_id, job_id, first_seq, last_seq, reason, continues }) =>
  print('committed', { utterance_index, utterance_id, request_id, job_id, first_seq, last_seq, reason, continues }))
session.on('terminal', ({ message, span, sent, tookMs, repeated }) => print('terminal', {
  type: message.type, seq: message.seq, utterance_index: message.utterance_index, utterance_id: message.utterance_id,
  continues: message.continues, error: message.error, reason: message.reason, attempt_id: message.attempt_id,
  request_id: message.request_id, latency: message.latency, got: message.result, sent, repeated,
  first_seq: span?.first_seq, last_seq: span?.last_seq, took_ms: tookMs === undefined ? undefined : Math.round(tookMs),
}))
session.on('warning', ({ code, detail }) => print('warning', { code, detail }))
session.on('error_received', ({ error, detail, reply_to }) => print('error_received', { error, detail, reply_to }))
session.on('lost', (close) => print('lost', close))
session.on('go_away', ({ reason, reconnect_ms }) => print('go_away', { reason, reconnect_ms }))
session.on('refused', ({ code, error }) => {
  print('refused', { code, error: error?.error, detail: error?.detail })
  process.exitCode = 1
  process.stdin.destroy()
})

// Sends an utterance in real time. Frames that are late are sent at once, like the buffer of a microphone.
// A stall delays it halfway, while pings are answered: a busy page in a browser that is not busy.
async function sendUtterance(index, { ms, end, stall_ms: stallMs }) {
  const next = frames(script.seed * 1000 + index)
  const count = Math.round(ms / FRAME_MS)
  const name = script.named ? { utteranceId: `u${index}`, requestId: `r${index}` } : {}
  session.begin(name)
  const first = session.lastFrame + 1
  const start = performance.now()
  const hash = createHash('sha256')
  let sent = 0
  let bytes = 0
  let stalledUntil = 0
  const catchUp = () => {
    if (performance.now() < stalledUntil) return
    const due = Math.min(count, Math.floor((performance.now() - start) / FRAME_MS) + 1)
    for (; sent < due; sent++) {
      const frame = next()
      hash.update(frame)
      bytes += frame.length
      session.audio(frame)
      if (sent + 1 !== Math.ceil(count / 2)) continue
      print('midway', { utterance: index, seq: session.lastFrame })
      if (!stallMs) continue
      sent++
      stalledUntil = performance.now() + stallMs
      return
    }
  }
  session.on('beforePong', catchUp)
  while (sent < count) {
    catchUp()
    const wake = Math.max(stalledUntil, start + sent * FRAME_MS)
    await new Promise((resolve) => setTimeout(resolve, wake - performance.now()))
  }
  session.off('beforePong', catchUp)
  const last = session.lastFrame
  if (end === 'final') session.final()
  print('utterance_sent', { utterance: index, utterance_id: name.utteranceId, first_seq: first, last_seq: last, end, sent: { sha256: hash.digest('hex'), bytes } })
  if (end === 'pause') await waitCommitted(last)
}

// Sends nothing until the scheduler has ended the utterance. A terminal message shows that too, if the commit was lost.
async function waitCommitted(last) {
  while (lastCommitted < last) await once(session, 'progress')
}
let lastCommitted = 0
const progress = (seq) => {
  lastCommitted = Math.max(lastCommitted, seq)
  session.emit('progress')
}
session.on('committed', ({ last_seq }) => progress(last_seq))
session.on('terminal', ({ span }) => progress(span?.last_seq ?? session.lastFrame))

session.start()
await once(session, 'started')
for (const [index, utterance] of script.utterances.entries()) await sendUtterance(index, utterance)
session.end()
const [totals] = await once(session, 'ended')
print('ended', { utterances: totals.utterances, results: totals.results, errors: totals.errors, frames: session.lastFrame })
process.stdin.destroy()
