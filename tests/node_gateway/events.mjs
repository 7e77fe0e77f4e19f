// CloudEvents: section 4 of the guide. One line of JSON, and a sequence that only rises, also over a restart.

let last = 0n

// Microseconds of the clock, one more than the last when the clock stands or went back. Zero-padded to 19 digits.
function nextSequence () {
  const now = BigInt(Date.now()) * 1000n
  last = now > last ? now : last + 1n
  return last.toString().padStart(19, '0')
}

export function event (name, source, data) {
  const sequence = nextSequence()
  return JSON.stringify({
    specversion: '1.0',
    type: `dev.loopwarden.${name}.v1`,
    source,
    id: sequence, // unique for this source, since the sequence is
    subject: data.run_id,
    partitionkey: data.run_id,
    time: new Date().toISOString(),
    sequence,
    datacontenttype: 'application/json',
    data
  })
}
