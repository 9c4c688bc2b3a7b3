package session

import (
	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
)

// Seal is the terminal message of a job as the outbox holds it.
func Seal(job *core.Job) ([]byte, error) {
	m, err := newTerminalMessage(job)
	if err != nil {
		return nil, err
	}
	return m.encode()
}

// Ref identifies the seat's conversation.
func (t *Connection) Ref() core.SessionRef { return t.session.ref }

// Past is how many names of ended utterances are remembered.
func (t *Connection) Past() int {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	return len(t.session.intake.closed)
}

// Spoken is how many utterances there are of which something may still come.
func (t *Connection) Spoken() int {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	return len(t.session.unfinished)
}

// Audio is the buffer of the sessions' audio.
func (d *Directory) Audio() *audio.Buffer { return d.audio }
