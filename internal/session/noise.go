package session

import "time"

// Silence is judged in blocks of this length, so that the size of a client's frames does not matter.
const levelBlock = 20 * time.Millisecond

const (
	floorParts  = 6                      // of the time over which the background is followed
	floorPart   = 500 * time.Millisecond // the length of one
	floorAfter  = 500 * time.Millisecond // before so much was heard, nothing is known of the background
	floorSmooth = 0.3                    // how much of a block enters the smoothed level
	floorFactor = 2.5                    // speech is louder than the background by this factor (8 dB)
	floorMax    = 0.1                    // no background raises the threshold above this
)

// noiseFloor follows how loud the background of a stream is: the minimum of the smoothed level over the last three
// seconds. Speech has gaps, in which the background is heard; steady noise has none.
type noiseFloor struct {
	minima   [floorParts]float64 // of past parts, a ring
	parts    int                 // how many of them there are
	next     int
	minimum  float64 // of the current part
	elapsed  time.Duration
	smoothed float64
	observed time.Duration
}

// observe takes in the level of a block.
func (n *noiseFloor) observe(level float64, length time.Duration) {
	if n.observed == 0 {
		n.smoothed, n.minimum = level, level
	}
	n.observed += length
	n.smoothed += (level - n.smoothed) * floorSmooth
	n.minimum = min(n.minimum, n.smoothed)
	if n.elapsed += length; n.elapsed >= floorPart {
		n.minima[n.next] = n.minimum
		n.next = (n.next + 1) % floorParts
		n.parts = min(n.parts+1, floorParts)
		n.elapsed, n.minimum = 0, n.smoothed
	}
}

// isKnown reports whether enough was heard to tell the background from speech.
func (n *noiseFloor) isKnown() bool { return n.parts == floorParts }

// threshold is the level below which audio is silence: at least base, and above the background.
func (n *noiseFloor) threshold(base float64) float64 {
	if n.observed < floorAfter {
		return base
	}
	floor := n.minimum
	for _, m := range n.minima[:n.parts] {
		floor = min(floor, m)
	}
	return max(base, min(floor*floorFactor, floorMax))
}
