package audio

import (
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
)

// Buffer holds audio until the jobs it belongs to have ended, up to a maximum for the whole instance. Its bytes are reserved as
// audio arrives, before there is a job; a clip takes over the reservation of its bytes.
type Buffer struct {
	max int64

	mu    run.Mutex
	held  int64
	clips map[core.JobID]*Clip
}

// NewBuffer makes a buffer of at most maxBytes.
func NewBuffer(maxBytes int64) *Buffer {
	return &Buffer{max: maxBytes, mu: run.NewMutex("audio_buffer"), clips: make(map[core.JobID]*Clip)}
}

// Reserve reserves bytes. It reports false when the buffer has not as many free.
func (b *Buffer) Reserve(bytes int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+int64(bytes) > b.max {
		return false
	}
	b.held += int64(bytes)
	return true
}

// Release releases reserved bytes.
func (b *Buffer) Release(bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= int64(bytes)
}

// Put adds the clip of a job, whose bytes were reserved before. It replaces an earlier clip of the job.
func (b *Buffer) Put(job core.JobID, c *Clip) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.clips[job]; old != nil {
		b.held -= int64(len(old.Data))
	}
	b.clips[job] = c
}

// Remove drops the clip of a job and its reservation.
func (b *Buffer) Remove(job core.JobID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.clips[job]; c != nil {
		b.held -= int64(len(c.Data))
		delete(b.clips, job)
	}
}

// Clip returns the audio of a job; nil when it is not on this instance.
func (b *Buffer) Clip(job core.JobID) *Clip {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.clips[job]
}

// Has reports whether a job can be given to a node from this instance: its audio is here, or it has none that a session holds.
func (b *Buffer) Has(job *core.Job) bool { return !IsSession(job.AudioRef) || b.Clip(job.ID) != nil }

// Held is the number of reserved bytes.
func (b *Buffer) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}
