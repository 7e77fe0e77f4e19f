// node vectors.mjs FILE: plays schemas/fingerprint-vectors.json and prints each difference; exits 1 when there are any.

import { readFileSync } from 'node:fs'
import { canonical, hash, isPoll, normalizeTool, outcomeFingerprint, outcomeValue } from './fingerprints.mjs'

const vectors = JSON.parse(readFileSync(process.argv[2], 'utf8'))
let played = 0
let differences = 0

function compare (what, expected, found) {
  played += 1
  if (expected !== found) {
    differences += 1
    console.log(`${what}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`)
  }
}

for (const { name, normalized } of vectors.tool_names) compare(`tool name ${JSON.stringify(name)}`, normalized, normalizeTool(name))
for (const { title, params_json, canonical: text, args_hash } of vectors.arguments) {
  const params = JSON.parse(params_json)
  compare(`arguments, ${title}, text`, text, canonical(params))
  compare(`arguments, ${title}`, args_hash, hash(params))
}
for (const { tool, params_json, poll } of vectors.polls) compare(`poll ${tool} ${params_json}`, poll, isPoll(tool, JSON.parse(params_json)))
for (const { title, tool, params_json, hashed, ...expected } of vectors.outcomes) {
  const outcome = {}
  for (const part of ['error', 'result']) if (`${part}_json` in expected) outcome[part] = JSON.parse(expected[`${part}_json`])
  const params = JSON.parse(params_json)
  const value = outcomeValue(tool, params, outcome)
  compare(`outcome, ${title}, text`, hashed, value === null ? null : canonical(value))
  for (const [name, found] of Object.entries(outcomeFingerprint(tool, params, outcome))) {
    compare(`outcome, ${title}, ${name}`, expected[name], found)
  }
}
console.log(`${played} comparisons, ${differences} differences`)
process.exitCode = differences ? 1 : 0
