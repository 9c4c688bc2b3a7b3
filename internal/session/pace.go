package session

import (
	"encoding/binary"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
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
		return opusLength(frame)
	}
	rate := fastest
	if len(first) >= wavRate+4 && string(first[:4]) == "RIFF" {
		if said := int(binary.LittleEndian.Uint32(first[wavRate:])); said > 0 {
			rate = min(said, fastest)
		}
	}
	return time.Duration(len(frame)) * time.Second / time.Duration(rate)
}

// opusLength is how long a packet of Opus lasts: its first byte says how long each of its frames is and how many there
// are (RFC 6716, section 3.1).
func opusLength(packet []byte) time.Duration {
	if len(packet) == 0 {
		return 0
	}
	config, count := packet[0]>>3, 1
	switch packet[0] & 3 {
	case 1, 2:
		count = 2
	case 3:
		if len(packet) < 2 {
			return 0
		}
		count = int(packet[1] & 63)
	}
	var frame time.Duration
	switch {
	case config < 12: // SILK: 10, 20, 40, 60 ms
		frame = [4]time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 60 * time.Millisecond}[config&3]
	case config < 16: // hybrid: 10, 20 ms
		frame = time.Duration(10*(1+config&1)) * time.Millisecond
	default: // CELT: 2.5, 5, 10, 20 ms
		frame = 2500 * time.Microsecond << (config & 3)
	}
	const most = 120 * time.Millisecond
	return min(time.Duration(count)*frame, most)
}
