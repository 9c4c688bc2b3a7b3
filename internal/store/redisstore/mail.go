package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// An inbox is a stream with one consumer group, read by one consumer: its instance. Both have this name.
const inboxGroup = "inbox"

// Post implements store.Mail.
func (s *Store) Post(ctx context.Context, p store.PostParams) (store.PostResult, error) {
	_, r, err := s.line.run(ctx, &scriptPost, []string{s.keys.presence(p.To), s.keys.inbox(p.To)}, strconv.Itoa(p.MaxMessages), string(p.Body))
	if err != nil {
		return 0, err
	}
	return store.PostResult(r.int(0)), nil
}

// Fetch implements store.Mail. It waits on a connection of its own, so it does not count among the commands that are on
// their way.
func (s *Store) Fetch(ctx context.Context, p store.FetchParams) ([]store.InboxMessage, error) {
	inbox := s.keys.inbox(p.Inbox)
	read := s.line.redis.B().Xreadgroup().Group(inboxGroup, inboxGroup).Count(int64(p.Limit)).Block(max(p.Wait.Milliseconds(), 1)).
		Streams().Key(inbox).Id(">").Build()
	streams, err := s.line.redis.Do(ctx, read).AsXReadSlices()
	if gone(err) { // it was buried while its instance was away; the next announcement makes it anew
		backoff.Sleep(ctx, p.Wait)
		return nil, ctx.Err()
	}
	if err = spoken(err); err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	now := s.line.clocks.server(s.line.slot(inbox))
	letters := make([]store.InboxMessage, len(streams[inbox]))
	for i, e := range streams[inbox] {
		letters[i] = store.InboxMessage{ID: e.ID, Age: age(e.ID, now), Deliveries: 1}
		for j, f := range e.FieldValues {
			switch {
			case j == 0: // whatever it is called, as scripts have it
				letters[i].Body = []byte(f.Value)
			case f.Field == postedField:
				letters[i].Age = age(f.Value, now)
			}
		}
	}
	return letters, nil
}

// gone reports whether there is no such inbox.
func gone(err error) bool {
	var reply *rueidis.RedisError
	return errors.As(err, &reply) && (strings.HasPrefix(reply.Error(), "NOGROUP") || strings.HasPrefix(reply.Error(), "UNBLOCKED"))
}

// age is how old an entry of a stream is: its name says when it was made.
func age(id string, now int64) time.Duration {
	ms, _ := parts(id)
	return time.Duration(max(now-int64(ms), 0)) * time.Millisecond
}

// entryID reports whether this can be the name of an entry of a stream.
func entryID(id string) bool {
	ms, seq, ok := strings.Cut(id, "-")
	_, badMS := strconv.ParseUint(ms, 10, 64)
	_, badSeq := strconv.ParseUint(seq, 10, 64)
	return ok && badMS == nil && badSeq == nil
}

// Unsettled implements store.Mail.
func (s *Store) Pending(ctx context.Context, p store.FetchParams) ([]store.InboxMessage, error) {
	now, r, err := s.line.run(ctx, &scriptUnsettled, []string{s.keys.inbox(p.Inbox)}, millis(p.MinIdle), strconv.Itoa(p.Limit))
	if err != nil {
		return nil, err
	}
	return letters(r.list(0), now), nil
}

// postedField says when a letter was first posted, where that is not when its entry was made.
const postedField = "at"

// letters reads what scripts return of letters: an id, when it was posted, a body and how often it was fetched, for each.
func letters(r reply, now int64) []store.InboxMessage {
	const each = 4
	list := make([]store.InboxMessage, 0, len(r.parts)/each)
	for i := 0; i+each <= len(r.parts); i += each {
		list = append(list, store.InboxMessage{ID: r.text(i), Age: age(r.text(i+1), now), Body: []byte(r.text(i + 2)), Deliveries: int(r.int(i + 3))})
	}
	return list
}

// Settle implements store.Mail.
func (s *Store) Acknowledge(ctx context.Context, inbox core.InstanceID, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	_, _, err := s.line.run(ctx, &scriptSettle, []string{s.keys.inbox(inbox)}, ids...)
	return err
}

// Condemn implements store.Mail.
func (s *Store) DeadLetter(ctx context.Context, p store.DeadLetterParams) (string, error) {
	_, r, err := s.line.run(ctx, &scriptCondemn, []string{s.keys.inbox(p.Inbox), s.keys.dead(p.Inbox)},
		p.Message.ID, p.Reason, strconv.Itoa(p.Message.Deliveries), millis(p.Keep))
	if err != nil {
		return "", err
	}
	return r.text(0), nil
}

// Announce implements store.Instances.
func (s *Store) Announce(ctx context.Context, p store.AnnounceParams) error {
	// The list says where to look, on another server perhaps. It comes first: an inbox that nobody finds is never removed.
	now := float64(s.line.clocks.server(s.line.slot(s.keys.schedulers())))
	_, err := s.line.one(s.line.begin(ctx), s.line.redis.B().Zadd().Key(s.keys.schedulers()).ScoreMember().ScoreMember(now, string(p.ID)).Build())
	if err != nil {
		return err
	}
	_, _, err = s.line.run(ctx, &scriptAnnounce, []string{s.keys.presence(p.ID), s.keys.inbox(p.ID)}, string(p.Body), millis(p.TTL), millis(inboxFor))
	return err
}

// inboxFor is how long an inbox outlives the last announcement of its instance, should nobody ever see to it.
const inboxFor = 10 * time.Minute

// Withdraw implements store.Instances.
func (s *Store) Withdraw(ctx context.Context, id core.InstanceID) error {
	_, err := s.line.one(s.line.begin(ctx), s.line.redis.B().Del().Key(s.keys.presence(id)).Build())
	return err
}

// Instances implements store.Instances.
func (s *Store) Instances(ctx context.Context) ([]store.Instance, error) {
	m, err := s.line.one(s.line.begin(ctx), s.line.redis.B().Zrange().Key(s.keys.schedulers()).Min("0").Max("-1").Build())
	if err != nil {
		return nil, fmt.Errorf("instances: %w", err)
	}
	names, err := m.AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("instances: %w", err)
	}
	list, asks := make([]store.Instance, len(names)), make([]ask, len(names))
	for i, name := range names {
		id := core.InstanceID(name)
		list[i].ID, asks[i].keys = id, []string{s.keys.presence(id), s.keys.inbox(id), s.keys.dead(id)}
	}
	err = s.line.readEach(ctx, &scriptInstance, asks, func(i int, _ int64, r reply) error {
		list[i].HasInbox, list[i].Inbox, list[i].Pending, list[i].DeadLetters = r.int(0) == 1, int(r.int(1)), int(r.int(2)), int(r.int(3))
		if list[i].Present = !r.none(4); list[i].Present {
			list[i].Body = []byte(r.text(4))
		}
		return nil
	})
	return list, err
}

// Estate implements store.Estates.
func (s *Store) FetchAbandoned(ctx context.Context, id core.InstanceID, limit int) ([]store.InboxMessage, error) {
	now, r, err := s.line.run(ctx, &scriptEstate, []string{s.keys.presence(id), s.keys.inbox(id)}, strconv.Itoa(limit))
	if err != nil {
		return nil, err
	}
	return letters(r.list(0), now), nil
}

// Bury implements store.Estates.
func (s *Store) RemoveInbox(ctx context.Context, id core.InstanceID) (bool, error) {
	_, r, err := s.line.run(ctx, &scriptBury, []string{s.keys.presence(id), s.keys.inbox(id), s.keys.dead(id)})
	if err != nil || r.int(0) == 0 {
		return false, err
	}
	if r.int(1) > 0 {
		return true, nil // its dead letters are found by its name
	}
	_, err = s.line.one(s.line.begin(ctx), s.line.redis.B().Zrem().Key(s.keys.schedulers()).Member(string(id)).Build())
	return true, err
}
