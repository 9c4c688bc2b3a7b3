// Speaks a script into a session in real time and prints what happens, a JSON object a line.
// Usage: node speak.js '{"addresses": [...], "session_id": "…", "utterances": [{"ms": 2000, "end": "final"}], …}'
// It ends when its standard input does, so that it never outlives who started it.

import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { performance } from 'node:perf_hooks'
import { Session } from './session.js'
import { FRAME_MS, frames } from './speech.js'

const script = JSON.parse(process.argv[2])
const began = performance.now()
const print = (event, facts = {}) => process.stdout.write(JSON.stringify({ event, at_ms: Math.round(performance.now() - began), ...facts }) + '\n')

process.stdin.resume().on('end', () => process.exit(1))

const session = new Session({
  addresses: script.addresses, token: script.token, sessionId: script.session_id, langs: ['en', 'es'],
  segmentation: { pause_ms: 1000, ...script.segmentation }, inChunks: script.in_chunks, forgetful: script.forgetful,
  orderedPongs: !script.unordered_pongs, elsewhere: script.elsewhere,
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
session.on('problem', ({ error, detail, reply_to }) => print('problem', { error, detail, reply_to }))
session.on('lost', (how) => print('lost', how))
session.on('moving', ({ reason, reconnect_ms }) => print('moving', { reason, reconnect_ms }))
session.on('refused', ({ code, error }) => {
  print('refused', { code, error: error?.error, detail: error?.detail })
  process.exitCode = 1
  process.stdin.destroy()
})

// Speaks for so long, at the pace of a clock: what is late is sent at once, as a microphone's buffer would be.
// A stall holds it up halfway, while pings are answered: a page that is busy in a browser that is not.
async function speak(index, { ms, end, stall_ms: stallMs }) {
  const next = frames(script.seed * 1000 + index)
  const count = Math.round(ms / FRAME_MS)
  const name = script.named ? { utteranceId: `u${index}`, requestId: `r${index}` } : {}
  session.begin(name)
  const first = session.produced + 1
  const start = performance.now()
  const hash = createHash('sha256')
  let spoken = 0
  let bytes = 0
  let stalledUntil = 0
  const catchUp = () => {
    if (performance.now() < stalledUntil) return
    const due = Math.min(count, Math.floor((performance.now() - start) / FRAME_MS) + 1)
    for (; spoken < due; spoken++) {
      const frame = next()
      hash.update(frame)
      bytes += frame.length
      session.audio(frame)
      if (spoken + 1 !== Math.ceil(count / 2)) continue
      print('midway', { utterance: index, seq: session.produced })
      if (!stallMs) continue
      spoken++
      stalledUntil = performance.now() + stallMs
      return
    }
  }
  session.on('beforePong', catchUp)
  while (spoken < count) {
    catchUp()
    const wake = Math.max(stalledUntil, start + spoken * FRAME_MS)
    await new Promise((resolve) => setTimeout(resolve, wake - performance.now()))
  }
  session.off('beforePong', catchUp)
  const last = session.produced
  if (end === 'final') session.final()
  print('spoken', { utterance: index, utterance_id: name.utteranceId, first_seq: first, last_seq: last, end, sent: { sha256: hash.digest('hex'), bytes } })
  if (end === 'pause') await whenEnded(last)
}

// The pause: nothing is sent until the scheduler has noticed. A terminal message says so too, if the commit was lost.
async function whenEnded(last) {
  while (highest < last) await once(session, 'progress')
}
let highest = 0
const progress = (seq) => {
  highest = Math.max(highest, seq)
  session.emit('progress')
}
session.on('committed', ({ last_seq }) => progress(last_seq))
session.on('terminal', ({ span }) => progress(span?.last_seq ?? session.produced))

session.start()
await once(session, 'started')
for (const [index, utterance] of script.utterances.entries()) await speak(index, utterance)
session.end()
const [totals] = await once(session, 'ended')
print('ended', { utterances: totals.utterances, results: totals.results, errors: totals.errors, frames: session.produced })
process.stdin.destroy()
