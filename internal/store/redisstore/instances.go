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

// Withdraw implements store.Instances.
func (s *Store) Withdraw(ctx context.Context, id core.InstanceID) error {
	if _, err := s.client.command(ctx, s.client.redis.B().Del().Key(s.keys.presence(id)).Build()); err != nil {
		return err
	}
	s.inboxRenewed.Delete(id)
	_, err := s.client.command(ctx,
		s.client.redis.B().Zadd().Key(s.keys.schedulers()).Xx().ScoreMember().ScoreMember(0, string(id)).Build())
	return err
}

// listed returns the names of the present instances, and of the absent ones that are not removed yet.
func (s *Store) listed(ctx context.Context) ([]string, error) {
	m, err := s.client.command(ctx, s.client.redis.B().Zrange().Key(s.keys.schedulers()).Min("0").Max("-1").Build())
	if err != nil {
		return nil, fmt.Errorf("instances: %w", err)
	}
	names, err := m.AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("instances: %w", err)
	}
	return names, nil
}

// Presences implements store.Instances.
func (s *Store) Presences(ctx context.Context) ([]store.Instance, error) {
	names, err := s.listed(ctx)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = s.keys.presence(core.InstanceID(name))
	}
	bodies, err := s.getValues(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("instances: %w", err)
	}
	list := make([]store.Instance, len(names))
	for i, name := range names {
		list[i] = store.Instance{ID: core.InstanceID(name), Present: bodies[i] != nil, Body: bodies[i]}
	}
	return list, nil
}

// MaybeAbsent implements store.Instances. The times in the list are estimates of its server's clock that are never ahead of it. In a
// cluster a script reads that clock, because no other script uses the slot of the list and clocks of different servers are not compared.
func (s *Store) MaybeAbsent(ctx context.Context, ttl time.Duration) ([]core.InstanceID, error) {
	names, err := s.announcedBefore(ctx, ttl)
	if err != nil {
		return nil, fmt.Errorf("absent instances: %w", err)
	}
	absent := make([]core.InstanceID, len(names))
	for i, name := range names {
		absent[i] = core.InstanceID(name)
	}
	return absent, nil
}

// announcedBefore returns the names of the instances whose last announcement has an age, or is older.
func (s *Store) announcedBefore(ctx context.Context, age time.Duration) ([]string, error) {
	key := s.keys.schedulers()
	if s.client.cluster {
		_, r, err := s.client.readScript(ctx, &scriptMaybeAbsent, []string{key}, millis(age))
		if err != nil {
			return nil, err
		}
		return r.texts(0), nil
	}
	latest := strconv.FormatInt(s.client.clocks.serverTime(s.client.slotOf(key))-age.Milliseconds(), 10)
	m, err := s.client.command(ctx, s.client.redis.B().Zrange().Key(key).Min("-inf").Max(latest).Byscore().Build())
	if err != nil {
		return nil, err
	}
	return m.AsStrSlice()
}

// Instances implements store.Instances.
func (s *Store) Instances(ctx context.Context) ([]store.Instance, error) {
	names, err := s.listed(ctx)
	if err != nil {
		return nil, err
	}
	list, calls := make([]store.Instance, len(names)), make([]scriptCall, len(names))
	for i, name := range names {
		id := core.InstanceID(name)
		list[i].ID, calls[i].keys = id, []string{s.keys.presence(id), s.keys.inbox(id), s.keys.deadLetters(id)}
	}
	err = s.client.readEach(ctx, &scriptInstance, calls, func(i int, _ int64, r reply) {
		list[i].HasInbox, list[i].Inbox, list[i].Pending, list[i].DeadLetters = r.int(0) == 1, int(r.int(1)), int(r.int(2)), int(r.int(3))
		if list[i].Present = !r.isNil(4); list[i].Present {
			list[i].Body = []byte(r.text(4))
		}
	})
	return list, err
}
