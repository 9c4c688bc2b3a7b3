package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Node implements store.Census.
func (s *Store) Node(ctx context.Context, id core.NodeID) (store.NodeStatus, error) {
	now, r, err := s.line.read(ctx, &scriptNode, []string{s.keys.meta(id), s.keys.leases(id)}, s.presence)
	if err != nil {
		return store.NodeStatus{}, err
	}
	status, err := decodeStatus(id, now, r)
	switch {
	case err != nil:
		return store.NodeStatus{}, err
	case status == nil:
		return store.NodeStatus{}, store.ErrNoNode
	}
	return *status, nil
}

// Nodes implements store.Census. A node that is listed but not there was removed meanwhile, or its removal was
// not finished.
func (s *Store) Nodes(ctx context.Context, ids ...core.NodeID) ([]store.NodeStatus, error) {
	if len(ids) == 0 {
		listed, err := s.LastSeen(ctx)
		if err != nil {
			return nil, err
		}
		for i := range listed {
			ids = append(ids, listed[i].Node)
		}
	}
	asks := make([]ask, len(ids))
	for i, id := range ids {
		asks[i] = ask{keys: []string{s.keys.meta(id), s.keys.leases(id)}, args: []string{s.presence}}
	}
	var all []store.NodeStatus
	err := s.line.readEach(ctx, &scriptNode, asks, func(i int, now int64, r reply) error {
		status, err := decodeStatus(ids[i], now, r)
		if err == nil && status != nil {
			all = append(all, *status)
		}
		return err
	})
	return all, err
}

// Mark implements store.Marks.
func (s *Store) Mark(ctx context.Context, m store.Mark) error {
	_, r, err := s.line.run(ctx, &scriptMark, []string{s.keys.meta(m.Node), s.keys.unavailable(m.Node)}, m.Service, millis(m.For))
	switch {
	case err != nil:
		return err
	case r.int(0) == unknownNode:
		return store.ErrNoNode
	}
	s.announce(ctx, m.Node, changeMark, "service", m.Service, "for", millis(m.For))
	return nil
}

// Marked implements store.Marks.
func (s *Store) Marked(ctx context.Context, nodes ...core.NodeID) ([]store.Mark, error) {
	asks := make([]ask, len(nodes))
	for i, node := range nodes {
		asks[i] = ask{keys: []string{s.keys.unavailable(node)}}
	}
	var marks []store.Mark
	err := s.line.readEach(ctx, &scriptMarked, asks, func(i int, now int64, r reply) error {
		flat := r.texts(0)
		for j := 0; j+1 < len(flat); j += 2 {
			until, _ := strconv.ParseInt(flat[j+1], 10, 64)
			if until > now {
				marks = append(marks, store.Mark{Node: nodes[i], Service: flat[j], For: time.Duration(until-now) * time.Millisecond})
			}
		}
		return nil
	})
	return marks, err
}
