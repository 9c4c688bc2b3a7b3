package bus

import "sync"

// recent remembers the last letters, to tell one that comes twice.
type recent struct {
	mu   sync.Mutex
	set  map[string]struct{}
	ring []string
	next int
}

// remembered is how many letters are remembered. A second copy comes soon or not at all.
const remembered = 4096

func newRecent() recent {
	return recent{set: make(map[string]struct{}, remembered), ring: make([]string, remembered)}
}

// first reports whether a letter was not dealt with before.
func (r *recent) first(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.set[id]
	return !known
}

// note remembers a letter that was dealt with.
func (r *recent) note(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.set[id]; known {
		return
	}
	delete(r.set, r.ring[r.next])
	r.ring[r.next], r.set[id] = id, struct{}{}
	r.next = (r.next + 1) % remembered
}
