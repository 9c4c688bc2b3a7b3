package audio

import (
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// RefPrefix begins the audio_ref of a job whose audio a session holds.
const RefPrefix = "session:"

// Frames is the range of a session's audio frames that an utterance consists of, the last one included. Frames are counted
// from 1.
type Frames struct{ First, Last int64 }

// Ref returns the audio_ref of these frames of a session.
func (f Frames) Ref(session core.SessionRef) string {
	return RefPrefix + session.String() + "/" + strconv.FormatInt(f.First, 10) + "-" + strconv.FormatInt(f.Last, 10)
}

// FramesOf returns the frames that a session's audio_ref names. For any other audio_ref it returns no frames.
func FramesOf(ref string) Frames {
	if !IsSession(ref) {
		return Frames{}
	}
	first, last, _ := strings.Cut(ref[strings.LastIndexByte(ref, '/')+1:], "-")
	var f Frames
	var errFirst, errLast error
	f.First, errFirst = strconv.ParseInt(first, 10, 64)
	f.Last, errLast = strconv.ParseInt(last, 10, 64)
	if errFirst != nil || errLast != nil {
		return Frames{}
	}
	return f
}

// IsSession reports whether an audio_ref names audio that a session holds.
func IsSession(ref string) bool { return strings.HasPrefix(ref, RefPrefix) }

// Clip is the audio of one job. It does not change.
type Clip struct {
	Format     wire.AudioFormat
	Data       []byte
	PacketEnds []int // where each packet of a packet codec ends in Data; nil for other encodings
	DurationMS int64
	Partials   bool // the session wants partial results
	Speech     bool // the session wants a spoken result
}

// Chunks is the number of frames in which the audio is sent to a node.
func (c *Clip) Chunks() int {
	if c.PacketEnds != nil {
		return len(c.PacketEnds)
	}
	return max(1, (len(c.Data)+wire.MaxChunk-1)/wire.MaxChunk)
}

// Chunk is the content of one of these frames: one packet, if the audio has packets.
func (c *Clip) Chunk(n int) []byte {
	if c.PacketEnds == nil {
		return c.Data[n*wire.MaxChunk : min((n+1)*wire.MaxChunk, len(c.Data))]
	}
	from := 0
	if n > 0 {
		from = c.PacketEnds[n-1]
	}
	return c.Data[from:c.PacketEnds[n]]
}

// Frames returns a function that returns the binary frames of the audio for one attempt, from a chunk on, and then nil. A
// chunk has the same number and the same bytes however often it is sent.
func (c *Clip) Frames(attempt wire.ActiveJob, chunk int) func() []byte {
	chunks := c.Chunks()
	return func() []byte {
		if chunk >= chunks {
			return nil
		}
		h := wire.BinaryHeader{Kind: wire.KindAudio, ActiveJob: attempt, Chunk: chunk, Last: chunk == chunks-1}
		frame, err := wire.AppendBinary(nil, &h, c.Chunk(chunk))
		if err != nil {
			return nil // cannot happen: the header is small and valid
		}
		chunk++
		return frame
	}
}

// File is the audio as it is fetched over HTTP: packets are put into an Ogg container.
func (c *Clip) File(job core.JobID) ([]byte, error) {
	if c.PacketEnds == nil {
		return c.Data, nil
	}
	s := oggopus.Stream{Channels: c.Format.Channels, SampleRate: c.Format.SampleRate, Packets: make([][]byte, len(c.PacketEnds))}
	for i := range s.Packets {
		s.Packets[i] = c.Chunk(i)
	}
	serial := fnv.New32a()
	_, _ = serial.Write([]byte(job)) // never fails
	return oggopus.Encode(&s, serial.Sum32())
}
