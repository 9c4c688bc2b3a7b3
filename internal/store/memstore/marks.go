package memstore

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Mark implements store.Marks.
func (s *Store) Mark(ctx context.Context, m store.Mark) error {
	n := s.lockNode(nil, m.Node)
	if n == nil {
		return store.ErrNoNode
	}
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	now := s.now()
	if n.marks == nil {
		n.marks = make(map[string]moment)
	}
	for service, until := range n.marks {
		if expired(until, now) {
			delete(n.marks, service)
		}
	}
	n.marks[m.Service] = now.add(m.For)
	s.watchers.publish(store.Change{Node: m.Node, Mark: &m})
	return nil
}

// Marked implements store.Marks.
func (s *Store) Marked(_ context.Context, nodes ...core.NodeID) ([]store.Mark, error) {
	var marks []store.Mark
	for _, id := range nodes {
		n := s.lockNode(nil, id)
		if n == nil {
			continue
		}
		now := s.now()
		for service, until := range n.marks {
			if !expired(until, now) {
				marks = append(marks, store.Mark{Node: id, Service: service, For: until.since(now)})
			}
		}
		n.mu.Unlock()
	}
	return marks, nil
}
