package session

import "github.com/lingua-scheduler/lingua/internal/core"

// Ref identifies the seat's conversation.
func (t *Seat) Ref() core.SessionRef { return t.session.ref }

// Past is how many names of ended utterances are remembered.
func (t *Seat) Past() int {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	return len(t.session.past)
}

// Spoken is how many utterances there are of which something may still come.
func (t *Seat) Spoken() int {
	t.session.mu.Lock()
	defer t.session.mu.Unlock()
	return len(t.session.spoken)
}
