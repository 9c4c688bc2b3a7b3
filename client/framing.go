package client

import (
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// frameDuration is the maximum duration of the audio in one frame.
const frameDuration = 200 * time.Millisecond

// framing is how the audio of a session is split into frames.
type framing struct {
	maxBytes       int   // of one frame
	sampleBytes    int   // one sample of every channel, which must not be split
	bytesPerSecond int64 // 0: not known
	isPackets      bool  // every Write is one packet, which is not split
}

func newFraming(f wire.AudioFormat, l wire.SessionLimits) framing {
	limit := int(l.FrameBytes)
	if limit <= 0 || limit > wire.MaxFrame {
		limit = wire.MaxFrame
	}
	maxBytes := max((limit-(1<<10))*3/4, 1) // the frame may be sent as base64, with other fields
	if f.Encoding == wire.EncodingOpus {
		return framing{maxBytes: maxBytes, sampleBytes: 1, isPackets: true}
	}
	rate, channels := f.SampleRate, f.Channels
	if rate <= 0 || rate > 1<<20 {
		rate = 16000
	}
	if channels <= 0 || channels > 1<<8 {
		channels = 1
	}
	fr := framing{sampleBytes: 2 * channels, bytesPerSecond: int64(2 * channels * rate)}
	fr.maxBytes = max(min(maxBytes, int(fr.bytesPerSecond*int64(frameDuration)/int64(time.Second))), fr.sampleBytes)
	return fr
}

// duration returns the duration of audio of a size; 0 if it is not known.
func (f *framing) duration(bytes int) time.Duration {
	if f.bytesPerSecond == 0 {
		return 0
	}
	return time.Duration(int64(bytes) * int64(time.Second) / f.bytesPerSecond)
}

// pacer keeps audio from running too far ahead of real time. Time without audio earns no credit.
type pacer struct {
	maxAhead  time.Duration // 0: no limit
	ahead     time.Duration
	updatedAt time.Time
}

// newPacer stays below the limit of the scheduler, so that frames which are delayed and arrive at once do not exceed it.
func newPacer(l wire.SessionLimits) pacer {
	return pacer{maxAhead: milliseconds(l.BufferedMS) * 3 / 4}
}

// take counts audio of a duration, or returns how long it has to wait. Audio that exceeds the limit alone is accepted when
// nothing is ahead.
func (p *pacer) take(now time.Time, duration time.Duration) (wait time.Duration) {
	p.ahead = max(0, p.ahead-now.Sub(p.updatedAt))
	p.updatedAt = now
	if p.maxAhead > 0 && p.ahead > 0 && p.ahead+duration > p.maxAhead {
		return min(p.ahead, p.ahead+duration-p.maxAhead)
	}
	p.ahead += duration
	return 0
}
