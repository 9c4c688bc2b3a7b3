package memstore

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// markKey names what is marked on a node.
type markKey struct{ service, version string }

// mark is one mark of the current epoch of a node.
type mark struct {
	until       moment
	nodeVersion core.Version
}

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
	if m.Epoch != n.epoch {
		return store.ErrNoNode
	}
	now := s.now()
	n.dropExpiredMarks(now)
	key := markKey{m.Service, m.Version}
	m.NodeVersion = max(m.NodeVersion, n.marks[key].nodeVersion)
	delete(n.marks, key)
	if len(n.marks) >= store.MaxMarks {
		n.dropFirstMark()
	}
	if n.marks == nil {
		n.marks = make(map[markKey]mark)
	}
	n.marks[key] = mark{until: now.add(m.For), nodeVersion: m.NodeVersion}
	s.watchers.publish(store.Change{Node: m.Node, Mark: &m})
	return nil
}

func (n *node) dropExpiredMarks(now moment) {
	for key, m := range n.marks {
		if expired(m.until, now) {
			delete(n.marks, key)
		}
	}
}

// dropFirstMark drops the mark that expires first.
func (n *node) dropFirstMark() {
	var first markKey
	var until moment
	for key, m := range n.marks {
		if until == 0 || m.until < until {
			first, until = key, m.until
		}
	}
	delete(n.marks, first)
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
		for key, m := range n.marks {
			if !expired(m.until, now) {
				marks = append(marks, store.Mark{
					Node: id, Service: key.service, Version: key.version, Epoch: n.epoch, NodeVersion: m.nodeVersion,
					For: m.until.since(now),
				})
			}
		}
		n.mu.Unlock()
	}
	return marks, nil
}
