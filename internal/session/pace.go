package session

import (
	"encoding/binary"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// pace is how far audio has run ahead of real time. Silence earns nothing; a cut does, because what was said meanwhile
// comes at once.
type pace struct {
	ahead  time.Duration
	credit time.Duration
	last   time.Time
}

// heard takes in so much audio. It returns 0, or, when that came too fast and is not taken in, after how long it may come
// again.
func (p *pace) heard(now time.Time, d, limit time.Duration) (wait time.Duration) {
	p.ahead = max(0, p.ahead-now.Sub(p.last))
	p.last = now
	over := p.ahead + d - limit
	if over > p.credit {
		return over - p.credit
	}
	if over > 0 {
		p.credit -= over
		d -= over
	}
	p.ahead += d
	return 0
}

// wavRate is where the header of a WAV file says how many bytes a second takes, and fastest the most there can be.
const (
	wavRate = 28
	fastest = 2 * 2 * 48_000
)

// lasts is how long a frame of audio lasts, as far as it can be told from the frame and the first of its utterance.
func lasts(f *wire.AudioFormat, first, frame []byte) time.Duration {
	switch f.Encoding {
	case PCM:
		return pcmLength(f, len(frame))
	case Opus:
		samples, _ := oggopus.Samples(frame) // checkFrame refuses what is none
		return time.Duration(samples) * time.Second / oggopus.Rate
	}
	rate := fastest
	if len(first) >= wavRate+4 && string(first[:4]) == "RIFF" {
		if said := int(binary.LittleEndian.Uint32(first[wavRate:])); said > 0 {
			rate = min(said, fastest)
		}
	}
	return time.Duration(len(frame)) * time.Second / time.Duration(rate)
}
