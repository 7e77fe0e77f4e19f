// Fingerprints: section 3 of the guide. Two calls, or two outcomes, are the same exactly when their hashes are equal.

import { createXXHash128 } from 'hash-wasm'

const hasher = await createXXHash128() // XXH3-128 with seed 0

const VOLATILE = new Set([
  'messageId', 'message_id', 'messageIds', 'platformMessageId', 'platformMessageIds', 'fileId', 'file_id', 'fileKey', 'pollId',
  'poll_id', 'receipt', 'runId', 'idempotencyKey', 'ts', 'timestamp', 'sentAt', 'deliveredAt', 'createdAt'
])
const SENDS = new Set([
  'send', 'broadcast', 'reply', 'thread-reply', 'sendWithEffect', 'sendAttachment', 'upload-file', 'sticker', 'poll'
])
const ALIASES = { __proto__: null, bash: 'exec', 'apply-patch': 'apply_patch' }

const isObject = value => typeof value === 'object' && value !== null && !Array.isArray(value)
const own = (object, name) => (Object.hasOwn(object, name) ? object[name] : undefined)
const orNull = value => value ?? null
const text = value => (typeof value === 'string' ? value : '')

// RFC 8785, and JSON.stringify for what RFC 8785 refuses: a lone surrogate is an escape, a number that is not finite null.
export function canonical (value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value)
  const members = Object.keys(value).sort() // by UTF-16 code units, which is what RFC 8785 wants
  return `{${members.map(name => `${JSON.stringify(name)}:${canonical(value[name])}`).join(',')}}`
}

export function hash (value) {
  return hasher.init().update(canonical(value)).digest('hex')
}

export function normalizeTool (name) {
  const lower = name.trim().toLowerCase()
  return ALIASES[lower] ?? lower
}

const actionOf = params => (isObject(params) ? text(own(params, 'action')) : '')

export function isPoll (tool, params) {
  const name = normalizeTool(tool)
  return name === 'command_status' || (name === 'process' && ['poll', 'log'].includes(actionOf(params)))
}

function errorText (error) {
  if (typeof error === 'string') return error
  if (isObject(error) && Object.keys(error).length === 1) {
    const thrown = own(error, '$error')
    if (isObject(thrown) && typeof own(thrown, 'message') === 'string') return thrown.message
  }
  return canonical(error)
}

// The i flag without the u flag folds ASCII letters only as far as these classes go.
const UNKNOWN_TOOL = /unknown tool[:\s]+["'`]?([a-z0-9_.-]+)/i
const TOOL_NOT_FOUND = /tool\s+["'`]?([a-z0-9_.-]+)["'`]?\s+(?:not found|is not available)/i

function missingTool (said) {
  const match = UNKNOWN_TOOL.exec(said) ?? TOOL_NOT_FOUND.exec(said)
  return match ? match[1].slice(0, 256).toLowerCase() : null
}

function withoutVolatile (value) {
  if (Array.isArray(value)) return value.map(withoutVolatile)
  if (!isObject(value)) return value
  const string = name => typeof own(value, name) === 'string'
  const delivered = string('id') && string('text') &&
    (['direction', 'senderId', 'accountId'].some(string) || isObject(own(value, 'conversation')))
  const kept = Object.entries(value).filter(([name]) => !VOLATILE.has(name) && !(delivered && name === 'id'))
  return Object.fromEntries(kept.map(([name, item]) => [name, withoutVolatile(item)]))
}

function textOf (result) {
  const content = own(result, 'content')
  if (!Array.isArray(content)) return ''
  const texts = content.filter(part => isObject(part) && typeof own(part, 'type') === 'string' && typeof own(part, 'text') === 'string')
  return texts.map(part => part.text).join('\n').trim()
}

function commandIdentity (status, details, result) {
  if (status === 'completed' || status === 'failed') {
    const code = own(details, 'exitCode')
    return {
      status,
      exitCode: typeof code === 'number' ? code : null,
      timedOut: own(details, 'timedOut') === true,
      output: text(own(details, 'aggregated')).trim() || textOf(result)
    }
  }
  if (status === 'running') return { status, tail: text(own(details, 'tail')) }
  if (status === 'approval-pending' || status === 'approval-unavailable') {
    return {
      status,
      reason: orNull(own(details, 'reason')),
      host: orNull(own(details, 'host')),
      command: text(own(details, 'command')),
      warningText: text(own(details, 'warningText'))
    }
  }
  return null
}

function jobIdentity (members, details, result) {
  const identity = Object.fromEntries(members.map(name => [name, orNull(own(details, name))]))
  identity.text = textOf(result)
  if (Object.hasOwn(details, 'status')) identity.status = details.status
  return identity
}

// The value to hash, or null: the outcome then has no hash. `outcome` is {error} or {result} or {}.
export function outcomeValue (tool, params, outcome) {
  if ((outcome.error ?? null) !== null) return ['error', errorText(outcome.error)]
  if (!('result' in outcome)) return null
  const { result } = outcome
  if (!isObject(result)) return ['value', result]
  const given = own(result, 'details')
  const details = isObject(given) ? given : {}
  const status = own(details, 'status')
  if (status === 'blocked' && own(details, 'deniedReason') === 'tool-loop') return null
  const name = normalizeTool(tool)
  const action = actionOf(params)
  if (name === 'exec') {
    const command = commandIdentity(status, details, result)
    if (command) return ['exec', command]
  } else if (name === 'process' && action === 'poll') {
    return ['poll', jobIdentity(['exitCode', 'exitSignal', 'aggregated'], details, result)]
  } else if (name === 'process' && action === 'log') {
    return ['log', jobIdentity(['totalLines', 'totalChars', 'truncated', 'exitCode', 'exitSignal'], details, result)]
  } else if (name === 'sessions_send' || (name === 'message' && SENDS.has(action))) {
    return ['send', withoutVolatile(details)]
  }
  return ['result', { details, text: textOf(result) }]
}

// What to send of an outcome: `outcome_hash` (null: none), `unknown_tool`, `is_error`.
export function outcomeFingerprint (tool, params, outcome) {
  const value = outcomeValue(tool, params, outcome)
  const failed = (outcome.error ?? null) !== null
  return {
    outcome_hash: value === null ? null : hash(value),
    unknown_tool: failed ? missingTool(errorText(outcome.error)) : null,
    is_error: failed || (isObject(outcome.result) && own(outcome.result, 'isError') === true)
  }
}
