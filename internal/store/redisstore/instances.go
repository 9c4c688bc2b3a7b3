package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Announce implements store.Instances.
func (s *Store) Announce(ctx context.Context, p store.AnnounceParams) error {
	// The list, which may be on another server, is written first: an inbox of an instance that is not on it would never be removed.
	now := float64(s.client.clocks.serverTime(s.client.slotOf(s.keys.schedulers())))
	_, err := s.client.command(ctx, s.client.redis.B().Zadd().Key(s.keys.schedulers()).ScoreMember().ScoreMember(now, string(p.ID)).Build())
	if err != nil {
		return err
	}
	_, _, err = s.client.runScript(ctx, &scriptAnnounce, []string{s.keys.presence(p.ID), s.keys.inbox(p.ID)}, string(p.Body), millis(p.TTL), millis(inboxTTL))
	return err
}

// inboxTTL is how long an inbox is kept after the last announcement of its instance if no other instance takes it over.
const inboxTTL = 10 * time.Minute

// Withdraw implements store.Instances.
func (s *Store) Withdraw(ctx context.Context, id core.InstanceID) error {
	_, err := s.client.command(ctx, s.client.redis.B().Del().Key(s.keys.presence(id)).Build())
	return err
}

// Instances implements store.Instances.
func (s *Store) Instances(ctx context.Context) ([]store.Instance, error) {
	m, err := s.client.command(ctx, s.client.redis.B().Zrange().Key(s.keys.schedulers()).Min("0").Max("-1").Build())
	if err != nil {
		return nil, fmt.Errorf("instances: %w", err)
	}
	names, err := m.AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("instances: %w", err)
	}
	list, calls := make([]store.Instance, len(names)), make([]scriptCall, len(names))
	for i, name := range names {
		id := core.InstanceID(name)
		list[i].ID, calls[i].keys = id, []string{s.keys.presence(id), s.keys.inbox(id), s.keys.deadLetters(id)}
	}
	err = s.client.readEach(ctx, &scriptInstance, calls, func(i int, _ int64, r reply) error {
		list[i].HasInbox, list[i].Inbox, list[i].Pending, list[i].DeadLetters = r.int(0) == 1, int(r.int(1)), int(r.int(2)), int(r.int(3))
		if list[i].Present = !r.isNil(4); list[i].Present {
			list[i].Body = []byte(r.text(4))
		}
		return nil
	})
	return list, err
}
