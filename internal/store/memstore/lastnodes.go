package memstore

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
)

// maxLastNodes bounds how many sessions lastNodes remembers. The jobs of sessions beyond it are not spread.
const maxLastNodes = 100_000

// lastNodes holds the node of the last HTTP job of each session.
type lastNodes struct {
	mu      run.Mutex
	nodes   map[core.SessionKey]lastNode
	sweeper sweeper
}

type lastNode struct {
	node    core.NodeID
	expires moment
}

// LastNode implements store.LastNodes.
func (s *Store) LastNode(_ context.Context, key core.SessionKey) (core.NodeID, error) {
	t := &s.lastNodes
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.nodes[key]; ok && !expired(last.expires, s.now()) {
		return last.node, nil
	}
	return "", nil
}

// SetLastNode implements store.LastNodes.
func (s *Store) SetLastNode(_ context.Context, key core.SessionKey, node core.NodeID, keep time.Duration) error {
	t, now := &s.lastNodes, s.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweeper.sweep(now, func() {
		for key, last := range t.nodes {
			if expired(last.expires, now) {
				delete(t.nodes, key)
			}
		}
	})
	if _, known := t.nodes[key]; known || len(t.nodes) < maxLastNodes {
		t.nodes[key] = lastNode{node: node, expires: now.add(keep)}
	}
	return nil
}
