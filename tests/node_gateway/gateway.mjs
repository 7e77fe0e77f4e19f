// node gateway.mjs BROKER PREFIX RUN: an agent that runs the same failing test again and again, at a gateway that asks the gate.
//
// Prints a line of JSON for each decision that it reads and for what it did, and ends after the first call that it refused.

import { Consumer, Producer } from '@platformatic/kafka'
import { setTimeout } from 'node:timers/promises'
import { event } from './events.mjs'
import { hash, isPoll, normalizeTool, outcomeFingerprint } from './fingerprints.mjs'
import { Gate } from './gate.mjs'
import { murmur2 } from './partitioner.mjs'

const [broker, prefix, run] = process.argv.slice(2)
const source = '/tests/node-gateway'
const calls = { topic: `${prefix}agent.tool-calls.v1` }
const gate = new Gate()
const say = line => process.stdout.write(`${JSON.stringify(line)}\n`)

const producer = new Producer({
  clientId: 'node-gateway',
  bootstrapBrokers: [broker],
  acks: -1,
  // Not the client's own: that one does not mask the sign, and so differs from the Java client where 2^32 is no multiple of the
  // number of partitions.
  partitioner: (_, key) => murmur2(key) & 0x7fffffff
})
// A group of its own for each process: every gateway reads all partitions, from the beginning, and commits nothing.
const consumer = new Consumer({
  clientId: 'node-gateway',
  groupId: `node-gateway-${run}`,
  bootstrapBrokers: [broker],
  autocommit: false,
  sessionTimeout: 6000, // the embedded broker answers the first join after half of it
  rebalanceTimeout: 6000,
  heartbeatInterval: 1000
})

async function publish (name, data) {
  const value = Buffer.from(event(name, source, data))
  await producer.send({ messages: [{ ...calls, key: Buffer.from(run), value }] })
}

async function follow (stream) {
  for await (const { value } of stream) {
    const { type, data } = JSON.parse(value)
    if (type !== 'dev.loopwarden.decision.v1') continue // a marker, or what a later release writes
    if (gate.take(data) && data.run_id === run) say(data)
  }
}

const stream = await consumer.consume({ topics: [`${prefix}agent.decisions.v1`], mode: 'earliest', maxWaitTime: 100 })
follow(stream).catch(error => {
  console.error(error)
  process.exit(2)
})

const params = { command: 'npm test', timeout: 60.0 }
const result = number => ({
  content: [{ type: 'text', text: '1 failing' }],
  details: { status: 'failed', exitCode: 1, durationMs: 900 + number, pid: 4000 + number, aggregated: '1 failing' }
})
const identity = { run_id: run, session_id: 'node', agent_id: 'tester', tool: normalizeTool('Bash'), args_hash: hash(params) }

for (let number = 1; number <= 2000; number++) {
  const call = { ...identity, call_id: `call-${number}`, poll: isPoll('Bash', params) }
  const decision = gate.check(run, call.tool, call.args_hash)
  if (decision?.action === 'block' || decision?.action === 'abort') {
    await publish('tool-call.blocked', { ...call, reason: 'loop', decision_id: decision.decision_id })
    await publish('run.ended', { run_id: run, status: 'stuck' })
    gate.forget(run)
    say({ refused: number, decision_id: decision.decision_id, message: decision.message })
    break
  }
  if (decision) say({ warned: number, decision_id: decision.decision_id })
  await publish('tool-call.started', call)
  await setTimeout(20) // the tool at work: an asynchronous gate needs the time that a call takes
  const { outcome_hash: outcomeHash, ...facts } = outcomeFingerprint('Bash', params, { result: result(number) })
  await publish('tool-call.finished', { ...call, ...(outcomeHash === null ? {} : { outcome_hash: outcomeHash }), ...facts })
}

await Promise.all([stream.close(), producer.close()])
await consumer.close()
