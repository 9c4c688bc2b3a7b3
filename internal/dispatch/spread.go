package dispatch

import (
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// maxSpread bounds how many sessions are remembered; one that is forgotten is merely spread less.
const maxSpread = 100_000

// spread remembers where the last utterance of each session went, so that the next can go elsewhere.
type spread struct {
	window time.Duration

	mu       sync.Mutex
	sessions map[core.SessionRef]visit
	swept    time.Time
}

type visit struct {
	node core.NodeID
	at   time.Time
}

func (s *spread) init(window time.Duration) {
	s.window = window
	s.sessions = make(map[core.SessionRef]visit)
}

// last is the node of the session's last utterance, if that was within the window.
func (s *spread) last(id core.SessionRef) core.NodeID {
	if s.window <= 0 {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.sessions[id]
	if !ok || time.Since(v.at) >= s.window {
		return ""
	}
	return v.node
}

// note remembers where an utterance went.
func (s *spread) note(id core.SessionRef, node core.NodeID) {
	if s.window <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.swept) >= s.window {
		s.swept = now
		for old, v := range s.sessions {
			if now.Sub(v.at) >= s.window {
				delete(s.sessions, old)
			}
		}
	}
	if _, known := s.sessions[id]; known || len(s.sessions) < maxSpread {
		s.sessions[id] = visit{node: node, at: now}
	}
}
