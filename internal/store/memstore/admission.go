package memstore

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Admit implements store.Nodes.
func (s *Store) Admit(ctx context.Context, p store.AdmitParams) (*core.Node, bool, error) {
	if err := p.Validate(); err != nil {
		return nil, false, err
	}
	n, err := s.lockRegistered(ctx, p.Node)
	if err != nil {
		return nil, false, err
	}
	defer n.mu.Unlock()
	if p.Fence < n.fence {
		return n.current, false, nil
	}
	n.fence = p.Fence
	if decided := p.Decision(s.time(s.now())); !decided.SameDecision(n.current.Admission) {
		next := *n.current
		next.Admission = decided
		s.publishChange(n, &next)
	}
	return n.current, true, nil
}
