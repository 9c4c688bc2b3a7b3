package session

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/wire"
)

// Why an utterance ended.
const (
	byHand    = "manual"
	byPause   = "pause"
	bySilence = "silence"
	byLength  = "max_duration"
	byEnd     = "end"
	byCancel  = "cancel" // and made no job
)

// preroll is how much silence before the first speech is kept: the beginning of a word is quiet.
const preroll = 300 * time.Millisecond

// rules is where an utterance ends unless its client ends it.
type rules struct {
	auto    bool // by pause and silence, and not only by length
	pause   time.Duration
	longest time.Duration
	silence float64 // the least level of speech; 0: nothing is silence
}

// piece is one frame of audio.
type piece struct {
	seq    int64
	data   []byte
	length time.Duration
	at     time.Time
}

// segment is the audio of one utterance as it comes in.
type segment struct {
	first, last int64 // audio frames, counted over the session
	pieces      []piece
	bytes       int
	peak        float64       // the loudest block
	voiced      bool          // something was louder than silence
	spoken      bool          // and than a background that was known by then
	quiet       time.Duration // how long it has been silent at the end
	length      time.Duration
	heard       time.Time // when its last audio came
}

// append takes in one frame.
func (g *segment) append(p piece) {
	if len(g.pieces) == 0 {
		g.first = p.seq
	}
	g.pieces = append(g.pieces, p)
	g.bytes += len(p.data)
	g.length += p.length
	g.last, g.heard = p.seq, p.at
}

// add takes in one frame and says why the utterance is over, if it is. What it drops of leading silence is returned
// in bytes: a microphone never stops sending, and silence alone is no utterance.
func (g *segment) add(f *wire.AudioFormat, r *rules, noise *noiseFloor, p piece) (over string, dropped int) {
	g.append(p)
	if !r.auto || r.silence <= 0 || f.Encoding != wire.EncodingPCM {
		g.voiced = true
		return g.tooLong(r), 0
	}
	threshold := g.listen(f, r.silence, noise, p.data)
	// What was taken for speech before the background was known may be nothing but background.
	if g.voiced = g.spoken || g.peak >= threshold; !g.voiced {
		return "", g.trim()
	}
	if g.quiet >= r.pause {
		return bySilence, 0
	}
	return g.tooLong(r), 0
}

// listen judges PCM block by block. It returns the threshold between silence and speech after it.
func (g *segment) listen(f *wire.AudioFormat, base float64, noise *noiseFloor, pcm []byte) (threshold float64) {
	size := max(2*f.Channels, audio.PCMBytes(f, levelBlock))
	for len(pcm) > 0 {
		block := pcm[:min(size, len(pcm))]
		pcm = pcm[len(block):]
		loud, length := audio.Level(block), audio.PCMDuration(f, len(block))
		noise.observe(loud, length)
		g.peak = max(g.peak, loud)
		if threshold = noise.threshold(base); loud < threshold {
			g.quiet += length
		} else {
			g.quiet = 0
			g.spoken = g.spoken || noise.isKnown() // it stays speech, however loud the background becomes after it
		}
	}
	return threshold
}

// trim drops silence before the first speech but for its end.
func (g *segment) trim() (dropped int) {
	for len(g.pieces) > 1 && g.length-g.pieces[0].length >= preroll {
		p := &g.pieces[0]
		g.bytes -= len(p.data)
		g.length -= p.length
		dropped += len(p.data)
		*p = piece{} // the audio goes now, not with the array
		g.pieces = g.pieces[1:]
	}
	g.first = g.pieces[0].seq
	return dropped
}

func (g *segment) tooLong(r *rules) string {
	if g.length >= r.longest {
		return byLength
	}
	return ""
}

// release drops the audio and returns how many bytes it had.
func (g *segment) release() int {
	n := g.bytes
	g.pieces, g.bytes = nil, 0
	return n
}
