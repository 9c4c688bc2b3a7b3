package memstore

import (
	"context"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// DeadLetters implements store.Estates.
func (s *Store) DeadLetters(ctx context.Context, inbox core.InstanceID, after string, limit int) ([]store.DeadLetter, error) {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	now := s.now()
	b := s.mail.box(inbox, now)
	if b == nil {
		return nil, ctx.Err()
	}
	var list []store.DeadLetter
	for i := 1 + b.indexDead(after); i < len(b.dead) && len(list) < limit; i++ {
		list = append(list, b.dead[i].shown(now))
	}
	return list, ctx.Err()
}

// indexDead is where a dead letter is; -1 when it is not.
func (b *box) indexDead(id string) int {
	return slices.IndexFunc(b.dead, func(d deadLetter) bool { return d.ID == id })
}

// Replay implements store.Estates.
func (s *Store) Replay(ctx context.Context, p store.ReplayParams) (store.PostResult, error) {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := s.now()
	b := s.mail.box(p.Inbox, now)
	if b == nil {
		return store.NoDeadLetter, nil
	}
	i := b.indexDead(p.ID)
	if i < 0 {
		return store.NoDeadLetter, nil
	}
	posted := s.mail.post(p.To, p.MaxMessages, b.dead[i].Body, b.dead[i].posted, now)
	if posted == store.Accepted {
		b.dead = slices.Delete(b.dead, i, i+1)
	}
	return posted, nil
}

// Discard implements store.Estates.
func (s *Store) Discard(ctx context.Context, inbox core.InstanceID, ids ...string) (int, error) {
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	b := s.mail.box(inbox, s.now())
	if b == nil {
		return 0, nil
	}
	had := len(b.dead)
	b.dead = slices.DeleteFunc(b.dead, func(d deadLetter) bool { return len(ids) == 0 || slices.Contains(ids, d.ID) })
	return had - len(b.dead), nil
}
