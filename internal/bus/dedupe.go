package bus

import "github.com/lingua-scheduler/lingua/internal/run"

// recentIDs remembers the messages that were handled last, to recognise a second copy.
type recentIDs struct {
	mu   run.Mutex
	set  map[string]struct{}
	ring []string
	next int
}

// maxRecent is how many messages are remembered. A second copy comes soon or not at all.
const maxRecent = 4096

func newRecentIDs() recentIDs {
	return recentIDs{mu: run.NewMutex("bus_recent"), set: make(map[string]struct{}, maxRecent), ring: make([]string, maxRecent)}
}

// has reports whether a message was handled before.
func (r *recentIDs) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.set[id]
	return known
}

// add remembers a message that was handled.
func (r *recentIDs) add(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.set[id]; known {
		return
	}
	delete(r.set, r.ring[r.next])
	r.ring[r.next], r.set[id] = id, struct{}{}
	r.next = (r.next + 1) % maxRecent
}

// counters counts by message. Make one with newCounters.
type counters struct {
	mu run.Mutex
	n  map[string]int
}

func newCounters() counters {
	return counters{mu: run.NewMutex("bus_counters"), n: make(map[string]int)}
}

// add counts one more for a message and returns its count.
func (c *counters) add(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[id]++
	return c.n[id]
}

func (c *counters) get(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[id]
}

func (c *counters) remove(ids ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		delete(c.n, id)
	}
}
