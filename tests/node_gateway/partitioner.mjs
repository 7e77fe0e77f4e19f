// The partition of a run: section 2 of the guide. Murmur2 as the Java client computes it, over the UTF-8 bytes of the key.

export function murmur2 (bytes) {
  const m = 0x5bd1e995
  const words = bytes.length >>> 2
  let h = 0x9747b28c ^ bytes.length
  for (let word = 0; word < words; word++) {
    let k = Math.imul(bytes.readInt32LE(4 * word), m)
    k = Math.imul(k ^ (k >>> 24), m)
    h = Math.imul(h, m) ^ k
  }
  const rest = 4 * words
  switch (bytes.length - rest) {
    case 3: h ^= bytes[rest + 2] << 16 // falls through
    case 2: h ^= bytes[rest + 1] << 8 // falls through
    case 1: h = Math.imul(h ^ bytes[rest], m)
  }
  h = Math.imul(h ^ (h >>> 13), m)
  return h ^ (h >>> 15)
}

export function partitionOf (runId, partitions) {
  return (murmur2(Buffer.from(runId)) & 0x7fffffff) % partitions
}
