package audio_test

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/wire"
)

// wavHeader is the header of a WAV file.
func wavHeader(channels, rate int) []byte {
	h := make([]byte, 44)
	copy(h, "RIFF")
	copy(h[8:], "WAVEfmt ")
	binary.LittleEndian.PutUint32(h[16:], 16)
	binary.LittleEndian.PutUint16(h[20:], 1)
	binary.LittleEndian.PutUint16(h[22:], uint16(channels))
	binary.LittleEndian.PutUint32(h[24:], uint32(rate))
	binary.LittleEndian.PutUint32(h[28:], uint32(2*channels*rate))
	copy(h[36:], "data")
	return h
}

func TestPCMDurationAndBytesAgree(t *testing.T) {
	t.Parallel()
	for _, f := range []wire.AudioFormat{{SampleRate: 16_000, Channels: 1}, {SampleRate: 44_100, Channels: 2}, {SampleRate: 8_000, Channels: 2}} {
		n := audio.PCMBytes(&f, time.Second)
		if want := f.SampleRate * f.Channels * 2; n != want {
			t.Errorf("a second of %+v has %d bytes, want %d", f, n, want)
		}
		if d := audio.PCMDuration(&f, n); d != time.Second {
			t.Errorf("%d bytes of %+v last %v", n, f, d)
		}
		if n := audio.PCMBytes(&f, 1234567*time.Nanosecond); n%(2*f.Channels) != 0 {
			t.Errorf("%d bytes of %+v are not whole samples", n, f)
		}
	}
}

func TestCheckFrame(t *testing.T) {
	t.Parallel()
	header := wavHeader(1, 16_000)
	for name, c := range map[string]struct {
		encoding     string
		channels     int
		first, frame []byte
		valid        bool
	}{
		"pcm":                       {wire.EncodingPCM, 1, nil, make([]byte, 640), true},
		"half a sample":             {wire.EncodingPCM, 1, nil, make([]byte, 641), false},
		"half a stereo sample":      {wire.EncodingPCM, 2, nil, make([]byte, 642), false},
		"stereo pcm":                {wire.EncodingPCM, 2, nil, make([]byte, 644), true},
		"wav":                       {wire.EncodingWAV, 1, header, header, true},
		"wav after its header":      {wire.EncodingWAV, 1, header, make([]byte, 33), true},
		"wav without a header":      {wire.EncodingWAV, 1, make([]byte, 44), make([]byte, 44), false},
		"an opus packet":            {wire.EncodingOpus, 1, nil, opusPackets(1)[0], true},
		"an empty opus packet":      {wire.EncodingOpus, 1, nil, nil, false},
		"opus in a container":       {wire.EncodingOpus, 1, nil, append([]byte("OggS"), make([]byte, 100)...), false},
		"a packet that is too long": {wire.EncodingOpus, 1, nil, []byte{0x1b, 63}, false},
	} {
		f := wire.AudioFormat{Encoding: c.encoding, SampleRate: 16_000, Channels: c.channels}
		e := audio.CheckFrame(&f, c.first, c.frame)
		if (e == nil) != c.valid || e != nil && e.Field != "audio" {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func TestFrameDuration(t *testing.T) {
	t.Parallel()
	slow, unknown := wavHeader(1, 8_000), []byte("RIFF")
	fast := wavHeader(2, 48_000)
	binary.LittleEndian.PutUint32(fast[28:], math.MaxUint32)
	for name, c := range map[string]struct {
		encoding     string
		first, frame []byte
		want         time.Duration
	}{
		"pcm":                              {wire.EncodingPCM, nil, make([]byte, 640), 20 * time.Millisecond},
		"an opus packet":                   {wire.EncodingOpus, nil, opusPackets(1)[0], 20 * time.Millisecond},
		"two opus frames in a packet":      {wire.EncodingOpus, nil, []byte{0x09, 1, 2}, 40 * time.Millisecond},
		"wav, by the rate in its header":   {wire.EncodingWAV, slow, make([]byte, 16_000), time.Second},
		"wav with an impossible rate":      {wire.EncodingWAV, fast, make([]byte, audio.MaxByteRate), time.Second},
		"wav with an incomplete header":    {wire.EncodingWAV, unknown, make([]byte, audio.MaxByteRate/2), time.Second / 2},
		"wav, the shortest without header": {wire.EncodingWAV, nil, make([]byte, audio.MaxByteRate), time.Second},
	} {
		f := wire.AudioFormat{Encoding: c.encoding, SampleRate: 16_000, Channels: 1}
		if got := audio.FrameDuration(&f, c.first, c.frame); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestLevel(t *testing.T) {
	t.Parallel()
	square := make([]byte, 64)
	for i := range 32 {
		v := int16(16384)
		if i%2 == 1 {
			v = -v
		}
		binary.LittleEndian.PutUint16(square[2*i:], uint16(v))
	}
	for name, c := range map[string]struct {
		pcm  []byte
		want float64
	}{
		"nothing":                       {nil, 0},
		"half a sample":                 {[]byte{1}, 0},
		"silence":                       {make([]byte, 640), 0},
		"a square wave of half the max": {square, 0.5},
		"the loudest sample":            {[]byte{0x00, 0x80}, 1},
	} {
		if got := audio.Level(c.pcm); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
