package session

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
