package audio_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// opusPackets returns valid Opus packets of 20 ms, each with other content.
func opusPackets(n int) [][]byte {
	packets := make([][]byte, n)
	for i := range packets {
		packets[i] = append([]byte{0x08}, bytes.Repeat([]byte{byte(i + 1)}, i+1)...)
	}
	return packets
}

// opusClip is a clip of packets.
func opusClip(packets [][]byte) *audio.Clip {
	c := &audio.Clip{Format: wire.AudioFormat{Encoding: wire.EncodingOpus, SampleRate: 16_000, Channels: 1}}
	for _, p := range packets {
		c.Data = append(c.Data, p...)
		c.PacketEnds = append(c.PacketEnds, len(c.Data))
	}
	return c
}

// frames reads all frames of a clip from a chunk on: the numbers of the chunks, the number of the last, and their content.
func frames(t *testing.T, c *audio.Clip, from int) (numbers []int, last int, data [][]byte) {
	t.Helper()
	last = -1
	next := c.Frames(wire.ActiveJob{JobID: "j", AttemptID: 3}, from)
	for frame := next(); frame != nil; frame = next() {
		h, content, err := wire.ReadBinary(frame)
		if err != nil {
			t.Fatal(err)
		}
		if h.Kind != wire.KindAudio || h.JobID != "j" || h.AttemptID != 3 {
			t.Fatalf("the header is %+v", h)
		}
		numbers, data = append(numbers, h.Chunk), append(data, bytes.Clone(content))
		if h.Last {
			last = h.Chunk
		}
	}
	return numbers, last, data
}

func TestClipChunksOfPCMAndWAV(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		encoding string
		size     int
		chunks   int
	}{
		"empty":               {wire.EncodingPCM, 0, 1},
		"pcm in one chunk":    {wire.EncodingPCM, 3200, 1},
		"exactly one chunk":   {wire.EncodingPCM, wire.MaxChunk, 1},
		"one byte more":       {wire.EncodingPCM, wire.MaxChunk + 1, 2},
		"wav in three chunks": {wire.EncodingWAV, 2*wire.MaxChunk + 44, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := make([]byte, c.size)
			for i := range data {
				data[i] = byte(i * 7)
			}
			clip := &audio.Clip{Format: wire.AudioFormat{Encoding: c.encoding, SampleRate: 16_000, Channels: 1}, Data: data}
			numbers, last, parts := frames(t, clip, 0)
			if clip.Chunks() != c.chunks || len(numbers) != c.chunks || last != c.chunks-1 {
				t.Errorf("%d chunks in the frames %v, the last is %d; want %d", clip.Chunks(), numbers, last, c.chunks)
			}
			if !bytes.Equal(bytes.Join(parts, nil), data) {
				t.Error("the chunks are not the audio")
			}
			file, err := clip.File("j")
			if err != nil || !bytes.Equal(file, data) {
				t.Errorf("the file is not the audio: %v", err)
			}
		})
	}
}

func TestClipChunksOfOpusArePackets(t *testing.T) {
	t.Parallel()
	packets := opusPackets(5)
	clip := opusClip(packets)
	_, last, parts := frames(t, clip, 0)
	if diff := cmp.Diff(packets, parts); diff != "" || last != 4 {
		t.Errorf("the last is %d (-want +got):\n%s", last, diff)
	}
}

// A chunk has the same number and content when the frames begin later, as after a reconnect of the node.
func TestClipFramesFromALaterChunk(t *testing.T) {
	t.Parallel()
	packets := opusPackets(5)
	numbers, last, parts := frames(t, opusClip(packets), 3)
	if diff := cmp.Diff([]int{3, 4}, numbers); diff != "" || last != 4 {
		t.Errorf("the last is %d (-want +got):\n%s", last, diff)
	}
	if diff := cmp.Diff(packets[3:], parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if numbers, _, _ := frames(t, opusClip(packets), 5); len(numbers) != 0 {
		t.Errorf("frames after the last chunk: %v", numbers)
	}
}

func TestClipFileOfOpusIsAnOggStream(t *testing.T) {
	t.Parallel()
	packets := opusPackets(5)
	clip := opusClip(packets)
	file, err := clip.File("j")
	if err != nil {
		t.Fatal(err)
	}
	s, err := oggopus.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&oggopus.Stream{Channels: 1, SampleRate: 16_000, Packets: packets}, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, err := clip.File("j")
	if err != nil || !bytes.Equal(file, again) {
		t.Errorf("the file of a job is not always the same: %v", err)
	}
}

func TestIsSession(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]bool{audio.RefPrefix + "acme/s/1-3": true, "": false, "https://example.com/session:": false} {
		if got := audio.IsSession(ref); got != want {
			t.Errorf("%q: %v", ref, got)
		}
	}
}

func TestFramesOf(t *testing.T) {
	t.Parallel()
	frames := audio.Frames{First: 4, Last: 12}
	session := core.SessionRef{SessionKey: core.SessionKey{Tenant: "acme", Name: "room/7-9"}, Incarnation: "i-1"}
	if got := audio.FramesOf(frames.Ref(session)); got != frames {
		t.Errorf("the frames of %q are %+v, want %+v", frames.Ref(session), got, frames)
	}
	for _, ref := range []string{"", "https://example.com/4-12", audio.RefPrefix, audio.RefPrefix + "acme/s/4", audio.RefPrefix + "acme/s/x-12", audio.RefPrefix + "acme/s/4-12x"} {
		if got := audio.FramesOf(ref); got != (audio.Frames{}) {
			t.Errorf("the frames of %q are %+v, want none", ref, got)
		}
	}
}
