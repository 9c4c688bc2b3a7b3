package session

import (
	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
)

// EncodeTerminalMessage returns the terminal message of a job as the outbox holds it.
func EncodeTerminalMessage(job *core.Job) ([]byte, error) {
	m, err := newTerminalMessage(job)
	if err != nil {
		return nil, err
	}
	return m.encode()
}

// Ref identifies the session.
func (c *Connection) Ref() core.SessionRef { return c.session.ref }

// ClosedUtterances is how many ended utterances are remembered.
func (c *Connection) ClosedUtterances() int {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	return len(c.session.intake.closed)
}

// UnfinishedUtterances is how many utterances there are that a result or speech may still follow.
func (c *Connection) UnfinishedUtterances() int {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	return len(c.session.unfinished)
}

// AudioBuffer is the buffer of the sessions' audio.
func (d *Directory) AudioBuffer() *audio.Buffer { return d.audio }
