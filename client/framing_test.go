package client

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

func TestPacerLimitsAudioAheadOfRealTime(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := newPacer(wire.SessionLimits{BufferedMS: 4000}) // 3 s ahead
	for i := range 3 {
		if wait := p.take(now, time.Second); wait != 0 {
			t.Fatalf("second %d waits for %v", i+1, wait)
		}
	}
	if wait := p.take(now, time.Second); wait != time.Second {
		t.Errorf("the fourth second waits for %v, want 1 s", wait)
	}
	if wait := p.take(now.Add(time.Second), time.Second); wait != 0 {
		t.Errorf("a second later it waits for %v", wait)
	}
	if wait := p.take(now.Add(time.Hour), 10*time.Second); wait != 0 {
		t.Errorf("audio that exceeds the limit alone waits for %v", wait)
	}
	if wait := p.take(now.Add(time.Hour), time.Second); wait <= 0 {
		t.Error("time without audio earned credit")
	}
}

func TestPacerWithoutLimit(t *testing.T) {
	t.Parallel()
	p := newPacer(wire.SessionLimits{})
	if wait := p.take(time.Unix(1000, 0), time.Hour) + p.take(time.Unix(1000, 0), time.Hour); wait != 0 {
		t.Errorf("waits for %v", wait)
	}
}

func TestFramingOfFormats(t *testing.T) {
	t.Parallel()
	limits := wire.SessionLimits{FrameBytes: wire.MaxFrame}
	for name, c := range map[string]struct {
		format wire.AudioFormat
		want   framing
	}{
		"default": {wire.AudioFormat{}, framing{maxBytes: 6400, sampleBytes: 2, bytesPerSecond: 32_000}},
		"stereo":  {wire.AudioFormat{SampleRate: 48_000, Channels: 2}, framing{maxBytes: 38_400, sampleBytes: 4, bytesPerSecond: 192_000}},
		"invalid": {wire.AudioFormat{SampleRate: -1, Channels: 1000}, framing{maxBytes: 6400, sampleBytes: 2, bytesPerSecond: 32_000}},
		"opus":    {wire.AudioFormat{Encoding: "opus"}, framing{maxBytes: (wire.MaxFrame - 1024) * 3 / 4, sampleBytes: 1, isPackets: true}},
	} {
		if got := newFraming(c.format, limits); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
