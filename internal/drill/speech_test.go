package drill

import (
	"bytes"
	"hash/fnv"
	"strconv"
)

// speechSize is how long a spoken result is: more than one piece.
const speechSize = 80_000

// speechOf is the spoken result of an attempt. No two are alike.
func speechOf(job string, attempt int) []byte {
	h := fnv.New32a()
	_, _ = h.Write([]byte(job + "/" + strconv.Itoa(attempt)))
	b := make([]byte, speechSize)
	for i, v := 0, h.Sum32()|1; i < len(b); i++ {
		v = v*1664525 + 1013904223
		b[i] = byte(v >> 24)
	}
	return b
}

// listener compares what is spoken with what was to be spoken, up to the first piece that is missing.
type listener struct{ heard map[attempt]*progress }

// progress is how far a spoken result has come.
type progress struct {
	chunk, bytes int
	torn         bool // a piece is missing: where others belong is not known
}

// hear takes in a piece and says what is wrong with it.
func (l *listener) hear(a attempt, chunk int, audio []byte) string {
	if l.heard == nil {
		l.heard = make(map[attempt]*progress)
	}
	p := l.heard[a]
	if p == nil {
		p = &progress{}
		l.heard[a] = p
	}
	if p.torn = p.torn || chunk != p.chunk; p.torn {
		return ""
	}
	rest := speechOf(a.job, a.number)[p.bytes:]
	p.chunk, p.bytes = p.chunk+1, p.bytes+len(audio)
	if !bytes.HasPrefix(rest, audio) {
		return "not what was spoken"
	}
	return ""
}

// checkSpeech holds what a session heard against what it was promised. Whatever a fault touches may be cut short.
func (t *talk) checkSpeech(entries []entry) {
	type voice struct {
		bytes     int64
		next      int64
		ended     bool
		announced bool
	}
	voices := make(map[attempt]*voice)
	of := func(e entry) *voice {
		key := attempt{e.Job, e.Attempt}
		if voices[key] == nil {
			voices[key] = &voice{}
		}
		return voices[key]
	}
	for _, e := range entries {
		switch {
		case e.What == terminal && e.Speech:
			of(e).announced = true
		case e.What == spoke:
			v := of(e)
			if e.Code != "" || v.ended || e.Index < v.next || !v.announced {
				t.breaks(mumbled, "%v, of which %+v came before", e, *v)
			}
			v.bytes, v.next, v.ended = v.bytes+e.Bytes, e.Index+1, v.ended || e.OK
		}
	}
	wants := false
	for _, e := range entries {
		wants = wants || e.What == started && e.Speech
		if e.What != terminal || !e.Speech {
			if wants && e.What == terminal && e.OK && len(touching(t.strikes, e.At-int64(t.within), e.At)) == 0 {
				t.breaks(mumbled, "it was wanted, and not promised: %v", e)
			}
			continue
		}
		t.speeches++
		v := of(e)
		if v.ended && v.bytes == speechSize {
			t.spoken++
			continue
		}
		if len(touching(t.strikes, e.At, e.At+int64(t.within))) == 0 {
			t.breaks(mumbled, "%d of %d bytes came: %v", v.bytes, speechSize, e)
		}
	}
}
