// PCM that a silence detector takes for speech: loud syllables with short gaps, never the same twice.

export const SAMPLE_RATE = 16000
export const FRAME_MS = 40

const SAMPLES = SAMPLE_RATE * FRAME_MS / 1000
const SYLLABLE_FRAMES = 5 // 200 ms, of which the last frame is quiet
const LOUD = 12000
const QUIET = 60

// xorshift32: small, seeded, and good enough that no two frames are equal.
const generator = (seed) => {
  let state = seed | 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state / 2 ** 31
  }
}

// frames returns a function that returns the next frame of an utterance at each call.
export function frames(seed) {
  const random = generator(Math.imul(seed + 1, 2654435761))
  let count = 0
  return () => {
    const amplitude = ++count % SYLLABLE_FRAMES === 0 ? QUIET : LOUD
    const bytes = Buffer.alloc(2 * SAMPLES)
    for (let at = 0; at < bytes.length; at += 2) bytes.writeInt16LE(Math.round(random() * amplitude), at)
    return bytes
  }
}
