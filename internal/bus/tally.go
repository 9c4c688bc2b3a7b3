package bus

import "sync"

// tally counts something of letters that are not dealt with yet. The zero value is ready.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

// note counts once more, and returns how often that was by now.
func (t *tally) note(id string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = make(map[string]int)
	}
	t.n[id]++
	return t.n[id]
}

func (t *tally) of(id string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n[id]
}

func (t *tally) forget(ids ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		delete(t.n, id)
	}
}
