package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Announce implements store.Instances. While the instance is present it has an inbox, which only an absent one can lose; so the presence
// is renewed by one command, and the inbox is checked and renewed from time to time.
func (s *Store) Announce(ctx context.Context, p store.AnnounceParams) error {
	if p.TTL == 0 {
		return s.withdraw(ctx, p.ID)
	}
	// The list, which may be on another server, is written first: an inbox of an instance that is not on it would never be removed.
	now := float64(s.client.clocks.serverTime(s.client.slotOf(s.keys.schedulers())))
	err := s.write(ctx, s.keys.schedulers(), func() rueidis.Completed {
		return s.client.redis.B().Zadd().Key(s.keys.schedulers()).ScoreMember().ScoreMember(now, string(p.ID)).Build()
	})
	if err != nil {
		return err
	}
	last, _ := s.inboxRenewed.Load(p.ID)
	if renewed, ok := last.(time.Time); ok && time.Since(renewed) < inboxRenewal {
		m, err := s.client.command(ctx, s.client.redis.B().Set().Key(s.keys.presence(p.ID)).Value(string(p.Body)).Xx().Px(p.TTL).Build())
		if err != nil || !m.IsNil() {
			return err
		}
	}
	requested := time.Now()
	_, r, err := s.client.runScript(ctx, &scriptAnnounce, []string{s.keys.presence(p.ID), s.keys.inbox(p.ID)}, string(p.Body),
		millis(p.TTL), millis(inboxTTL))
	if err != nil {
		return err
	}
	s.inboxRenewed.Store(p.ID, requested)
	if r.int(0) == 1 { // perhaps because the store was emptied
		return s.confirmIncarnation(ctx)
	}
	return nil
}

const (
	// inboxTTL is how long an inbox is kept after the last announcement of its instance if no other instance takes it over.
	inboxTTL = 10 * time.Minute
	// inboxRenewal is how often that time begins again.
	inboxRenewal = time.Minute
)

// withdraw ends the presence of an instance.
func (s *Store) withdraw(ctx context.Context, id core.InstanceID) error {
	if _, err := s.client.command(ctx, s.client.redis.B().Del().Key(s.keys.presence(id)).Build()); err != nil {
		return err
	}
	s.inboxRenewed.Delete(id)
	_, err := s.client.command(ctx,
		s.client.redis.B().Zadd().Key(s.keys.schedulers()).Xx().ScoreMember().ScoreMember(0, string(id)).Build())
	return err
}

// Instances implements store.Instances.
func (s *Store) Instances(ctx context.Context, p store.InstancesParams) ([]store.Instance, error) {
	names, err := s.listed(ctx, p.SilentFor)
	if err != nil {
		return nil, fmt.Errorf("instances: %w", err)
	}
	list, calls, keys := make([]store.Instance, len(names)), make([]scriptCall, len(names)), make([]string, len(names))
	for i, name := range names {
		id := core.InstanceID(name)
		list[i].ID, keys[i] = id, s.keys.presence(id)
		calls[i].keys = []string{keys[i], s.keys.inbox(id), s.keys.deadLetters(id)}
	}
	if p.Inboxes {
		err = s.client.readEach(ctx, &scriptInstance, calls, func(i int, _ int64, r reply) {
			list[i].HasInbox, list[i].Inbox, list[i].Pending = r.int(0) == 1, int(r.int(1)), int(r.int(2))
			list[i].DeadLetters = int(r.int(3))
			if list[i].Present = !r.isNil(4); list[i].Present {
				list[i].Body = []byte(r.text(4))
			}
		})
		return list, err
	}
	bodies, err := s.getValues(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("instances: %w", err)
	}
	for i, body := range bodies {
		list[i].Present, list[i].Body = body != nil, body
	}
	return list, nil
}

// listed returns the names of the present instances, and of the absent ones that are not removed yet: all, or those whose last announcement
// has an age. The times in the list are estimates of its server's clock that are never ahead of it. In a cluster a script reads that clock,
// because no other script uses the slot of the list and clocks of different servers are not compared.
func (s *Store) listed(ctx context.Context, age time.Duration) ([]string, error) {
	key := s.keys.schedulers()
	latest := "+inf"
	switch {
	case age > 0 && s.client.cluster:
		_, r, err := s.client.readScript(ctx, &scriptMaybeAbsent, []string{key}, millis(age))
		if err != nil {
			return nil, err
		}
		return r.texts(0), nil
	case age > 0:
		latest = strconv.FormatInt(s.client.clocks.serverTime(s.client.slotOf(key))-age.Milliseconds(), 10)
	}
	m, err := s.client.command(ctx, s.client.redis.B().Zrange().Key(key).Min("-inf").Max(latest).Byscore().Build())
	if err != nil {
		return nil, err
	}
	return m.AsStrSlice()
}
