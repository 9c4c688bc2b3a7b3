package session

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/wire"
)

// GoAway asks everybody to go on elsewhere within a while, and closes those who have not by then: each at a moment of its
// own, so that they do not all come to the next instance at once. It returns when nobody is connected, or the context
// ends.
func (r *Registry) GoAway(ctx context.Context, reason string, within time.Duration) {
	r.mu.Lock()
	r.leaving = true
	all := make([]*Session, 0, len(r.sessions))
	for _, s := range r.sessions {
		all = append(all, s)
	}
	r.mu.Unlock()
	var closing sync.WaitGroup
	for _, s := range all {
		link := s.listener()
		if link == nil {
			continue
		}
		link.Send(wire.GoAway{Reason: reason, ReconnectMS: within.Milliseconds()})
		closing.Go(func() {
			spread := within/2 + time.Duration(rand.Int64N(int64(within/2)+1))
			for end := time.Now().Add(spread); s.listener() == link && time.Now().Before(end); {
				if !backoff.Sleep(ctx, min(spread, 100*time.Millisecond)) {
					break
				}
			}
			link.Close(wire.CloseDraining, wire.Errorf(wire.Internal, "%s: connect again and resume", reason))
		})
	}
	closing.Wait()
}

// leaving is the answer to whoever comes when everybody is asked to go.
func leaving() *wire.Error {
	return wire.Errorf(wire.AllCandidatesFullOrFailed, "this instance is stopping: connect again, and another will answer").RetryIn(time.Second)
}

// isLeaving reports whether everybody is asked to go on elsewhere.
func (r *Registry) isLeaving() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaving
}

// listener is where the session's messages go, nil while nobody listens.
func (s *Session) listener() Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link
}
