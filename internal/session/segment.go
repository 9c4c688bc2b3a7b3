package session

import (
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Why an utterance ended.
const (
	byHand    = "manual"
	byPause   = "pause"
	bySilence = "silence"
	byLength  = "max_duration"
	byEnd     = "end"
)

// preroll is how much silence before the first sound is kept: the beginning of a word is quiet.
const preroll = 300 * time.Millisecond

// rules is where an utterance ends unless somebody says so.
type rules struct {
	pause   time.Duration
	longest time.Duration
	silence float64 // 0: nothing is silence
}

// segment is the audio of one utterance as it comes in.
type segment struct {
	first, last int64    // audio frames, counted over the session
	frames      [][]byte // as they came
	bytes       int
	voiced      bool          // something was louder than silence
	quiet       time.Duration // how long it has been silent at the end
	long        time.Duration // how long it lasts
	heard       time.Time     // when its last audio came
}

// piece is one frame of audio.
type piece struct {
	seq  int64
	data []byte
	long time.Duration
	at   time.Time
}

// add takes in one frame and says why the utterance is over, if it is. What it drops of leading silence is returned
// in bytes: a microphone never stops sending, and silence alone is no utterance.
func (g *segment) add(f *wire.AudioFormat, r *rules, p piece) (over string, dropped int) {
	if len(g.frames) == 0 {
		g.first = p.seq
	}
	g.frames = append(g.frames, p.data)
	g.bytes += len(p.data)
	g.long += p.long
	g.last, g.heard = p.seq, p.at
	if f.Encoding != PCM {
		g.voiced = true
		return g.tooLong(r), 0
	}
	if r.silence > 0 && level(p.data) < r.silence {
		g.quiet += p.long
	} else {
		g.voiced, g.quiet = true, 0
	}
	if !g.voiced {
		return "", g.trim(f)
	}
	if r.silence > 0 && g.quiet >= r.pause {
		return bySilence, 0
	}
	return g.tooLong(r), 0
}

// trim drops silence before the first sound but for its end.
func (g *segment) trim(f *wire.AudioFormat) (dropped int) {
	for len(g.frames) > 1 && length(f, g.bytes-len(g.frames[0])) >= preroll {
		n := len(g.frames[0])
		g.frames[0] = nil
		g.frames = g.frames[1:]
		g.bytes -= n
		g.long -= length(f, n)
		g.first++
		dropped += n
	}
	return dropped
}

func (g *segment) tooLong(r *rules) string {
	if g.long >= r.longest {
		return byLength
	}
	return ""
}

// sound puts the audio together.
func (g *segment) sound() []byte {
	all := make([]byte, 0, g.bytes)
	for _, frame := range g.frames {
		all = append(all, frame...)
	}
	return all
}
