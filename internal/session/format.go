package session

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// The ways in which sound is written down.
const (
	PCM  = "pcm_s16le"
	Opus = "opus"
	WAV  = "wav"
)

// Format checks a format and fills in what it leaves out.
func Format(f wire.AudioFormat) (wire.AudioFormat, *wire.Error) {
	if f.Encoding == "" {
		f.Encoding = PCM
	}
	if f.SampleRate == 0 {
		f.SampleRate = 16_000
	}
	if f.Channels == 0 {
		f.Channels = 1
	}
	switch {
	case f.Encoding != PCM && f.Encoding != Opus && f.Encoding != WAV:
		return f, wire.Invalid("audio.encoding", "must be pcm_s16le, opus or wav, not %q", f.Encoding)
	case f.SampleRate < 8_000 || f.SampleRate > 48_000:
		return f, wire.Invalid("audio.sample_rate", "must be between 8000 and 48000, not %d", f.SampleRate)
	case f.Channels < 1 || f.Channels > 2:
		return f, wire.Invalid("audio.channels", "must be 1 or 2, not %d", f.Channels)
	}
	return f, nil
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
