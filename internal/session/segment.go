package session

import (
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/wire"
)

// Reasons why an utterance ended.
const (
	reasonManual      = "manual"
	reasonPause       = "pause"
	reasonSilence     = "silence"
	reasonMaxDuration = "max_duration"
	reasonEnd         = "end"
	reasonCancel      = "cancel" // the utterance made no job
)

// preroll is how much silence before the first speech is kept: the beginning of a word is quiet.
const preroll = 300 * time.Millisecond

// segmentRules say where an utterance ends unless its client ends it.
type segmentRules struct {
	auto        bool // it ends at pauses and in silence, and not only at its maximum duration
	pause       time.Duration
	maxDuration time.Duration
	silence     float64 // the minimum level of speech; 0: nothing is silence
}

// audioPiece is one frame of audio in a segment.
type audioPiece struct {
	seq        int64
	data       []byte
	duration   time.Duration
	receivedAt time.Time
}

// segment is the audio of one utterance while it arrives.
type segment struct {
	firstSeq, lastSeq int64 // audio frames, counted over the session
	frames            []audioPiece
	bytes             int
	peak              float64       // the level of the loudest block
	hasSpeech         bool          // something was louder than silence
	speechConfirmed   bool          // something was louder than a background that was known by then
	trailingSilence   time.Duration // how long it has been silent at the end
	duration          time.Duration
	receivedAt        time.Time // when its last audio arrived
	spokenAt          time.Time // when its last audio arrived that contained speech
}

// append adds one frame.
func (g *segment) append(p audioPiece) {
	if len(g.frames) == 0 {
		g.firstSeq = p.seq
	}
	g.frames = append(g.frames, p)
	g.bytes += len(p.data)
	g.duration += p.duration
	g.lastSeq, g.receivedAt = p.seq, p.receivedAt
}

// firstFrame is the content of the first frame, or of next when the segment is empty.
func (g *segment) firstFrame(next []byte) []byte {
	if len(g.frames) > 0 {
		return g.frames[0].data
	}
	return next
}

// add adds one frame. It returns the reason why the utterance has ended, empty if it has not, and how many bytes of leading
// silence it dropped: a microphone never stops sending, and silence alone is no utterance.
func (g *segment) add(f *wire.AudioFormat, r *segmentRules, noise *noiseFloor, p audioPiece) (reason string, dropped int) {
	g.append(p)
	if !r.auto || r.silence <= 0 || f.Encoding != wire.EncodingPCM {
		g.hasSpeech, g.spokenAt = true, p.receivedAt
		return g.checkDuration(r), 0
	}
	threshold := g.measure(f, r.silence, noise, p.data)
	// What counted as speech before the background was known may be nothing but background.
	if g.hasSpeech = g.speechConfirmed || g.peak >= threshold; !g.hasSpeech {
		return "", g.trim()
	}
	if g.trailingSilence >= r.pause {
		return reasonSilence, 0
	}
	return g.checkDuration(r), 0
}

// segmentation is how long after the end of the speech the utterance ended: since its last audio arrived that contained speech, or not at
// all if its client ended it.
func (g *segment) segmentation(reason string, ended time.Time) time.Duration {
	if g.spokenAt.IsZero() || reason == reasonManual || reason == reasonEnd {
		return 0
	}
	return max(0, ended.Sub(g.spokenAt))
}

// measure measures the level of PCM block by block. It returns the threshold between silence and speech after it.
func (g *segment) measure(f *wire.AudioFormat, base float64, noise *noiseFloor, pcm []byte) (threshold float64) {
	size := max(2*f.Channels, audio.PCMBytes(f, levelBlock))
	for len(pcm) > 0 {
		block := pcm[:min(size, len(pcm))]
		pcm = pcm[len(block):]
		level, duration := audio.Level(block), audio.PCMDuration(f, len(block))
		noise.observe(level, duration)
		g.peak = max(g.peak, level)
		if threshold = noise.threshold(base); level < threshold {
			g.trailingSilence += duration
		} else {
			g.trailingSilence, g.spokenAt = 0, g.receivedAt
			g.speechConfirmed = g.speechConfirmed || noise.isKnown() // it stays speech, however loud the background becomes after it
		}
	}
	return threshold
}

// trim drops the silence before the first speech, except for the preroll. It returns how many bytes it dropped.
func (g *segment) trim() (dropped int) {
	for len(g.frames) > 1 && g.duration-g.frames[0].duration >= preroll {
		p := &g.frames[0]
		g.bytes -= len(p.data)
		g.duration -= p.duration
		dropped += len(p.data)
		*p = audioPiece{} // free the audio now, not with the array
		g.frames = g.frames[1:]
	}
	g.firstSeq = g.frames[0].seq
	return dropped
}

// checkDuration returns the reason why the utterance has ended if it has its maximum duration.
func (g *segment) checkDuration(r *segmentRules) string {
	if g.duration >= r.maxDuration {
		return reasonMaxDuration
	}
	return ""
}

// release drops the audio and returns how many bytes it had.
func (g *segment) release() int {
	n := g.bytes
	g.frames, g.bytes = nil, 0
	return n
}

// levelBlock is the length of the blocks in which levels are measured, so that the size of a client's frames does not matter.
const levelBlock = 20 * time.Millisecond

const (
	floorWindows   = 6                      // windows over which the background is followed
	floorWindow    = 500 * time.Millisecond // the length of one
	floorAfter     = 500 * time.Millisecond // before so much audio, nothing is known of the background
	floorSmoothing = 0.3                    // the weight of a block in the smoothed level
	floorFactor    = 2.5                    // speech is louder than the background by this factor (8 dB)
	floorMax       = 0.1                    // no background raises the threshold above this
)

// noiseFloor follows the level of a stream's background: the minimum of the smoothed level over the last three seconds.
// Speech has gaps in which only the background remains; steady noise has none.
type noiseFloor struct {
	minima   [floorWindows]float64 // of past windows, a ring
	windows  int                   // how many of them there are
	next     int
	minimum  float64 // of the current window
	elapsed  time.Duration
	smoothed float64
	observed time.Duration
}

// observe adds the level of a block.
func (n *noiseFloor) observe(level float64, duration time.Duration) {
	if n.observed == 0 {
		n.smoothed, n.minimum = level, level
	}
	n.observed += duration
	n.smoothed += (level - n.smoothed) * floorSmoothing
	n.minimum = min(n.minimum, n.smoothed)
	if n.elapsed += duration; n.elapsed >= floorWindow {
		n.minima[n.next] = n.minimum
		n.next = (n.next + 1) % floorWindows
		n.windows = min(n.windows+1, floorWindows)
		n.elapsed, n.minimum = 0, n.smoothed
	}
}

// isKnown reports whether enough audio was observed to tell the background from speech.
func (n *noiseFloor) isKnown() bool { return n.windows == floorWindows }

// threshold is the level below which audio is silence: at least base, and above the background.
func (n *noiseFloor) threshold(base float64) float64 {
	if n.observed < floorAfter {
		return base
	}
	floor := n.minimum
	for _, m := range n.minima[:n.windows] {
		floor = min(floor, m)
	}
	return max(base, min(floor*floorFactor, floorMax))
}
