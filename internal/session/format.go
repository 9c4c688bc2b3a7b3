package session

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// The ways in which sound is written down.
const (
	PCM  = wire.EncodingPCM
	Opus = wire.EncodingOpus
	WAV  = wire.EncodingWAV
)

// Format checks a format and fills in what it leaves out.
func Format(f wire.AudioFormat) (wire.AudioFormat, *wire.Error) {
	f = f.OrDefault()
	return f, f.Check("audio")
}

// pcmLength is how long so many bytes of PCM last.
func pcmLength(f *wire.AudioFormat, bytes int) time.Duration {
	second := 2 * f.SampleRate * f.Channels
	return time.Duration(bytes) * time.Second / time.Duration(second)
}

// pcmSize is how many bytes of PCM last so long, in whole samples.
func pcmSize(f *wire.AudioFormat, length time.Duration) int {
	return int(int64(f.SampleRate)*int64(length)/int64(time.Second)) * 2 * f.Channels
}

// checkFrame says what is wrong with a frame of audio, if anything is. first is the first frame of its utterance.
func checkFrame(f *wire.AudioFormat, first, frame []byte) *wire.Error {
	switch {
	case f.Encoding == PCM && len(frame)%(2*f.Channels) != 0:
		return wire.Invalid("audio", "a frame of pcm_s16le with %d channels has a multiple of %d bytes, not %d", f.Channels, 2*f.Channels, len(frame))
	case f.Encoding == WAV && !bytes.HasPrefix(first, []byte("RIFF")):
		return wire.Invalid("audio", "the first frame of a wav utterance begins with its RIFF header; send raw samples as pcm_s16le")
	case f.Encoding == Opus:
		if _, err := oggopus.Samples(frame); err != nil {
			return wire.Invalid("audio", "a frame of opus is one packet without a container: %v", err)
		}
	}
	return nil
}

// level is how loud PCM is: the root of the mean square, 1 for the loudest there can be.
func level(pcm []byte) float64 {
	samples := len(pcm) / 2
	if samples == 0 {
		return 0
	}
	var sum float64
	for i := range samples {
		v := float64(int16(binary.LittleEndian.Uint16(pcm[2*i:])))
		sum += v * v
	}
	return math.Sqrt(sum/float64(samples)) / 32768
}
