package clustertest

import (
	"bytes"
	"hash/fnv"
	"strconv"
)

// SpeechSize is the size of the speech of every result in bytes: more than one chunk.
const SpeechSize = 80_000

// speechOf returns the speech of an attempt. No two attempts have the same.
func speechOf(job string, attempt int) []byte {
	h := fnv.New32a()
	_, _ = h.Write([]byte(job + "/" + strconv.Itoa(attempt)))
	b := make([]byte, SpeechSize)
	for i, v := 0, h.Sum32()|1; i < len(b); i++ {
		v = v*1664525 + 1013904223
		b[i] = byte(v >> 24)
	}
	return b
}

// attemptKey identifies an attempt of a job.
type attemptKey struct {
	job    string
	number int
}

// speechVerifier compares received speech with what the node sent, up to the first missing chunk.
type speechVerifier struct {
	progress map[attemptKey]*speechProgress
}

// speechProgress is how much of the speech of an attempt was received.
type speechProgress struct {
	chunk, bytes int
	incomplete   bool // a chunk is missing, so the offset of later ones is unknown
}

// verify checks the next chunk and returns how it differs; empty: it does not.
func (v *speechVerifier) verify(a attemptKey, chunk int, audio []byte) string {
	if v.progress == nil {
		v.progress = make(map[attemptKey]*speechProgress)
	}
	p := v.progress[a]
	if p == nil {
		p = &speechProgress{}
		v.progress[a] = p
	}
	if p.incomplete = p.incomplete || chunk != p.chunk; p.incomplete {
		return ""
	}
	rest := speechOf(a.job, a.number)[p.bytes:]
	p.chunk, p.bytes = p.chunk+1, p.bytes+len(audio)
	if !bytes.HasPrefix(rest, audio) {
		return "not what was spoken"
	}
	return ""
}
