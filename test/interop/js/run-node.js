// Runs a node and prints what happens, a JSON object a line.
// Usage: node run-node.js '{"addresses": [...], "node_id": "…", "slots": 4, "work_ms": 100, …}'
// SIGTERM makes it finish its jobs and stop. It ends when its standard input does, so that it never outlives its parent.

import { performance } from 'node:perf_hooks'
import { Node } from './node.js'

const script = JSON.parse(process.argv[2])
const startTime = performance.now()
const print = (event, fields = {}) => process.stdout.write(JSON.stringify({ event, at_ms: Math.round(performance.now() - startTime), ...fields }) + '\n')

process.stdin.resume().on('end', () => process.exit(1))

const node = new Node({
  addresses: script.addresses, token: script.token, nodeId: script.node_id, langs: ['en', 'es'], slots: script.slots,
  workMs: script.work_ms, neverAnswers: script.never_answers,
})

node.on('registered', ({ node_id, epoch, status, cancel }) => print('registered', { node_id, epoch, status, cancel, address: node.connection.address }))
node.on('assigned', ({ job_id, attempt_id, audio }) => print('assigned', { job_id, attempt_id, by_url: Boolean(audio?.url) }))
node.on('rejected', ({ job_id, attempt_id }) => print('rejected', { job_id, attempt_id }))
node.on('done', ({ job_id, attempt_id, accepted, error }) => print('done', { job_id, attempt_id, accepted, error }))
node.on('error_received', ({ error, detail, reply_to }) => print('error_received', { error, detail, reply_to }))
node.on('lost', (close) => print('lost', close))
node.on('go_away', ({ reason, reconnect_ms }) => print('go_away', { reason, reconnect_ms }))
const exit = (code) => {
  process.exitCode = code
  process.stdin.destroy()
}
node.on('refused', ({ code, error }) => {
  print('refused', { code, error: error?.error, detail: error?.detail })
  exit(1)
})
node.on('stopped', () => {
  print('stopped')
  exit(0)
})
process.once('SIGTERM', () => node.stop())

node.start()
