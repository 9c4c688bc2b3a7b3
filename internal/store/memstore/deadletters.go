package memstore

import (
	"context"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// DeadLetters implements store.AbandonedInboxes.
func (s *Store) DeadLetters(ctx context.Context, inbox core.InstanceID, after string, limit int) ([]store.DeadLetter, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	now := s.now()
	inst := s.instances.find(inbox, now)
	if inst == nil {
		return nil, ctx.Err()
	}
	var list []store.DeadLetter
	for i := 1 + inst.indexOfDeadLetter(after); i < len(inst.deadLetters) && len(list) < limit; i++ {
		list = append(list, inst.deadLetters[i].export(now))
	}
	return list, ctx.Err()
}

// indexOfDeadLetter returns the index of a dead letter, -1 when there is none with the id.
func (inst *instance) indexOfDeadLetter(id string) int {
	return slices.IndexFunc(inst.deadLetters, func(d deadLetter) bool { return d.ID == id })
}

// Replay implements store.AbandonedInboxes.
func (s *Store) Replay(ctx context.Context, p store.ReplayParams) (store.PostResult, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := s.now()
	inst := s.instances.find(p.Inbox, now)
	if inst == nil {
		return store.NoDeadLetter, nil
	}
	i := inst.indexOfDeadLetter(p.ID)
	if i < 0 {
		return store.NoDeadLetter, nil
	}
	posted := s.instances.post(p.To, p.MaxMessages, inst.deadLetters[i].Body, inst.deadLetters[i].posted, now)
	if posted == store.Accepted {
		inst.deadLetters = slices.Delete(inst.deadLetters, i, i+1)
	}
	return posted, nil
}

// Discard implements store.AbandonedInboxes.
func (s *Store) Discard(ctx context.Context, inbox core.InstanceID, ids ...string) (int, error) {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	inst := s.instances.find(inbox, s.now())
	if inst == nil {
		return 0, nil
	}
	before := len(inst.deadLetters)
	inst.deadLetters = slices.DeleteFunc(inst.deadLetters, func(d deadLetter) bool { return len(ids) == 0 || slices.Contains(ids, d.ID) })
	return before - len(inst.deadLetters), nil
}
