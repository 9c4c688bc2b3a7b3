// Runs a node and prints what happens, a JSON object a line.
// Usage: node serve.js '{"addresses": [...], "node_id": "…", "slots": 4, "work_ms": 100, …}'
// SIGTERM makes it finish what it has and leave. It ends when its standard input does, so that it never outlives who started it.

import { performance } from 'node:perf_hooks'
import { Node } from './node.js'

const script = JSON.parse(process.argv[2])
const began = performance.now()
const print = (event, facts = {}) => process.stdout.write(JSON.stringify({ event, at_ms: Math.round(performance.now() - began), ...facts }) + '\n')

process.stdin.resume().on('end', () => process.exit(1))

const node = new Node({
  addresses: script.addresses, token: script.token, nodeId: script.node_id, langs: ['en', 'es'], slots: script.slots,
  workMs: script.work_ms, silent: script.silent, elsewhere: script.elsewhere,
})

node.on('registered', ({ node_id, epoch, status, cancel }) => print('registered', { node_id, epoch, status, cancel, address: node.connection.address }))
node.on('assigned', ({ job_id, attempt_id, audio }) => print('assigned', { job_id, attempt_id, by_url: Boolean(audio?.url) }))
node.on('rejected', ({ job_id, attempt_id }) => print('rejected', { job_id, attempt_id }))
node.on('done', ({ job_id, attempt_id, accepted, error }) => print('done', { job_id, attempt_id, accepted, error }))
node.on('problem', ({ error, detail, reply_to }) => print('problem', { error, detail, reply_to }))
node.on('lost', (how) => print('lost', how))
node.on('moving', ({ reason, reconnect_ms }) => print('moving', { reason, reconnect_ms }))
const stop = (code) => {
  process.exitCode = code
  process.stdin.destroy()
}
node.on('refused', ({ code, error }) => {
  print('refused', { code, error: error?.error, detail: error?.detail })
  stop(1)
})
node.on('left', () => {
  print('left')
  stop(0)
})
process.once('SIGTERM', () => node.leave())

node.start()
