package client

import (
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// frameLength is how much audio one frame holds at most.
const frameLength = 200 * time.Millisecond

// sound is how a session's audio is cut into frames.
type sound struct {
	most      int   // bytes of one frame
	sample    int   // bytes that belong together: one sample of every channel
	perSecond int64 // bytes; 0: not known
	packets   bool  // every Write is one packet, which is not cut
}

func soundOf(f wire.AudioFormat, l wire.SessionLimits) sound {
	room := int(l.FrameBytes)
	if room <= 0 || room > wire.MaxFrame {
		room = wire.MaxFrame
	}
	most := max((room-(1<<10))*3/4, 1) // it must fit in base64 too, beside its names
	if f.Encoding == "opus" {
		return sound{most: most, sample: 1, packets: true}
	}
	rate, channels := f.SampleRate, f.Channels
	if rate <= 0 || rate > 1<<20 {
		rate = 16000
	}
	if channels <= 0 || channels > 1<<8 {
		channels = 1
	}
	s := sound{sample: 2 * channels, perSecond: int64(2 * channels * rate)}
	s.most = max(min(most, int(s.perSecond*int64(frameLength)/int64(time.Second))), s.sample)
	return s
}

// length is how long so many bytes sound; 0 if that is not known.
func (s *sound) length(bytes int) time.Duration {
	if s.perSecond == 0 {
		return 0
	}
	return time.Duration(int64(bytes) * int64(time.Second) / s.perSecond)
}

// pace keeps audio from running too far ahead of real time. Time that passes in silence earns nothing.
type pace struct {
	most  time.Duration // ahead; 0: any
	ahead time.Duration
	at    time.Time // when ahead was true
}

// paceOf stays below the limit, so that frames which pile up on their way do not break it.
func paceOf(l wire.SessionLimits) pace {
	return pace{most: milliseconds(l.BufferedMS) * 3 / 4}
}

// take counts audio of that length in, or says how long it has to wait. What is longer than the limit goes alone.
func (p *pace) take(now time.Time, length time.Duration) (wait time.Duration) {
	p.ahead = max(0, p.ahead-now.Sub(p.at))
	p.at = now
	if p.most > 0 && p.ahead > 0 && p.ahead+length > p.most {
		return min(p.ahead, p.ahead+length-p.most)
	}
	p.ahead += length
	return 0
}
