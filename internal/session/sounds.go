package session

import (
	"hash/fnv"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// RefPrefix begins the audio_ref of a job whose audio a session holds.
const RefPrefix = "session:"

// Clip is the audio of one job.
type Clip struct {
	Format   wire.AudioFormat
	Data     []byte
	Ends     []int // where each packet of a packet codec ends in Data; nil for other encodings
	Length   int64 // milliseconds
	Partials bool  // somebody reads partial results
	Speech   bool  // somebody listens to a spoken result
}

// newClip makes the clip of a committed utterance.
func newClip(set *settings, u *utterance) *Clip {
	c := &Clip{
		Format: set.Format, Data: make([]byte, 0, u.bytes), Length: u.spec.Utterance.AudioMS, Partials: set.Partials, Speech: set.TTS,
	}
	for i := range u.pieces {
		c.Data = append(c.Data, u.pieces[i].data...)
		if set.Format.Encoding == Opus {
			c.Ends = append(c.Ends, len(c.Data))
		}
	}
	return c
}

// Chunks is in how many frames the audio is sent to a node.
func (c *Clip) Chunks() int {
	if c.Ends != nil {
		return len(c.Ends)
	}
	return max(1, (len(c.Data)+wire.MaxChunk-1)/wire.MaxChunk)
}

// Chunk is what one of these frames holds: a packet, if the audio has packets. It is the same each time.
func (c *Clip) Chunk(n int) []byte {
	if c.Ends == nil {
		return c.Data[n*wire.MaxChunk : min((n+1)*wire.MaxChunk, len(c.Data))]
	}
	from := 0
	if n > 0 {
		from = c.Ends[n-1]
	}
	return c.Data[from:c.Ends[n]]
}

// File is the audio as it is fetched over HTTP: packets are in a container. It is the same each time.
func (c *Clip) File(job core.JobID) ([]byte, error) {
	if c.Ends == nil {
		return c.Data, nil
	}
	s := oggopus.Stream{Channels: c.Format.Channels, SampleRate: c.Format.SampleRate, Packets: make([][]byte, len(c.Ends))}
	for i := range s.Packets {
		s.Packets[i] = c.Chunk(i)
	}
	serial := fnv.New32a()
	_, _ = serial.Write([]byte(job)) // it cannot fail
	return oggopus.Encode(&s, serial.Sum32())
}

// Sounds holds audio until the jobs it belongs to have ended, up to a bound for the whole instance.
type AudioBuffer struct {
	most int64

	mu    sync.Mutex
	held  int64
	clips map[core.JobID]*Clip
}

func newSounds(most int64) *AudioBuffer {
	return &AudioBuffer{most: most, clips: make(map[core.JobID]*Clip)}
}

// take makes room for so many bytes, and reports false when there is none.
func (s *AudioBuffer) take(bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held+int64(bytes) > s.most {
		return false
	}
	s.held += int64(bytes)
	return true
}

// give frees room.
func (s *AudioBuffer) give(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held -= int64(bytes)
}

// put keeps a clip whose room was taken before.
func (s *AudioBuffer) put(job core.JobID, c *Clip) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.clips[job]; old != nil {
		s.held -= int64(len(old.Data))
	}
	s.clips[job] = c
}

// free forgets a job's audio.
func (s *AudioBuffer) free(job core.JobID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clips[job]; c != nil {
		s.held -= int64(len(c.Data))
		delete(s.clips, job)
	}
}

// Clip returns the audio of a job, nil when it is not here.
func (s *AudioBuffer) Clip(job core.JobID) *Clip {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clips[job]
}

// Held is how many bytes are held.
func (s *AudioBuffer) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}
