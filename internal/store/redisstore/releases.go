package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/backoff"
)

// couriers is how many take releases to Redis at once: one would keep the next lot waiting for the answer to the last.
const couriers = 2

// releaseBackoff is between two tries to release a slot.
var releaseBackoff = backoff.Backoff{Min: 50 * time.Millisecond, Max: time.Second}

// releases takes slots that are to be freed to Redis, many in one go. Nobody waits for them.
type releases struct {
	mu      sync.Mutex
	queue   []slot
	running int
	work    sync.WaitGroup
}

// slot names a lease in its set.
type slot struct{ leases, member string }

// release has a slot freed, unless the store is closed.
func (s *Store) release(what slot) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return
	}
	r := &s.releases
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, what)
	if r.running < couriers {
		r.running++
		r.work.Go(s.takeReleases)
	}
}

// takeReleases takes what is queued to Redis until nothing is.
func (s *Store) takeReleases() {
	r := &s.releases
	for {
		r.mu.Lock()
		n := min(len(r.queue), batch)
		some := slices.Clone(r.queue[:n])
		r.queue = slices.Delete(r.queue, 0, n)
		if n == 0 {
			r.running--
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()

		cmds := make([]rueidis.Completed, n)
		for i, what := range some {
			cmds[i] = s.zrem(what)
		}
		if _, err := s.line.many(s.line.begin(s.root), cmds); err != nil {
			for _, what := range some {
				r.work.Go(func() { s.insist(s.root, what) })
			}
		}
	}
}

// insist frees one slot however often Redis has to be asked. After as long as a lease lives, the lease has lapsed.
func (s *Store) insist(ctx context.Context, what slot) {
	until := time.Now().Add(s.timing.Presence)
	for retry := releaseBackoff; time.Now().Before(until); {
		if !retry.Wait(ctx) {
			return
		}
		if _, err := s.line.one(s.line.begin(ctx), s.zrem(what)); err == nil {
			return
		}
	}
}

func (s *Store) zrem(what slot) rueidis.Completed {
	return s.line.redis.B().Zrem().Key(what.leases).Member(what.member).Build()
}
