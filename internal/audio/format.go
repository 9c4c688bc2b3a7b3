package audio

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// riff begins every WAV file.
var riff = []byte("RIFF")

// wavByteRate is the offset of the number of bytes a second in the header of a WAV file.
const wavByteRate = 28

// MaxByteRate is the maximum number of bytes in a second of audio: 16-bit stereo PCM at 48 kHz.
const MaxByteRate = 2 * 2 * 48_000

// PCMDuration is the duration of PCM of a size.
func PCMDuration(f *wire.AudioFormat, bytes int) time.Duration {
	return time.Duration(bytes) * time.Second / time.Duration(2*f.SampleRate*f.Channels)
}

// PCMBytes is the size of PCM of this duration, in whole samples.
func PCMBytes(f *wire.AudioFormat, d time.Duration) int {
	return int(int64(f.SampleRate)*int64(d)/int64(time.Second)) * 2 * f.Channels
}

// CheckFrame returns what is wrong with a frame of a session's audio, or nil. first is the first frame of its utterance.
func CheckFrame(f *wire.AudioFormat, first, frame []byte) *wire.Error {
	switch {
	case f.Encoding == wire.EncodingPCM && len(frame)%(2*f.Channels) != 0:
		return wire.Invalid("audio", "a frame of pcm_s16le with %d channels has a multiple of %d bytes, not %d", f.Channels, 2*f.Channels,
			len(frame))
	case f.Encoding == wire.EncodingWAV && !bytes.HasPrefix(first, riff):
		return wire.Invalid("audio", "the first frame of a wav utterance begins with its RIFF header; send raw samples as pcm_s16le")
	case f.Encoding == wire.EncodingOpus:
		if _, err := oggopus.Samples(frame); err != nil {
			return wire.Invalid("audio", "a frame of opus is one packet without a container: %v", err)
		}
	}
	return nil
}

// FrameDuration is how long a frame lasts. The header of a WAV file is in the first frame of its utterance; without one the
// duration is the shortest possible. The frame has passed CheckFrame.
func FrameDuration(f *wire.AudioFormat, first, frame []byte) time.Duration {
	switch f.Encoding {
	case wire.EncodingPCM:
		return PCMDuration(f, len(frame))
	case wire.EncodingOpus:
		samples, _ := oggopus.Samples(frame) // CheckFrame refuses a frame that has none
		return time.Duration(samples) * time.Second / oggopus.Rate
	}
	rate := MaxByteRate
	if len(first) >= wavByteRate+4 && bytes.HasPrefix(first, riff) {
		if declared := int(binary.LittleEndian.Uint32(first[wavByteRate:])); declared > 0 {
			rate = min(declared, MaxByteRate)
		}
	}
	return time.Duration(len(frame)) * time.Second / time.Duration(rate)
}

// Level is the loudness of PCM: the root mean square of its samples, where 1 is the loudest possible.
func Level(pcm []byte) float64 {
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
