package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Post implements store.Inboxes.
func (s *Store) Post(ctx context.Context, p store.PostParams) (store.PostResult, error) {
	_, r, err := s.client.runScript(ctx, &scriptPost, []string{s.keys.presence(p.To), s.keys.inbox(p.To)}, strconv.Itoa(p.MaxMessages),
		string(p.Body))
	if err != nil {
		return 0, err
	}
	return store.PostResult(r.int(0)), nil
}

// inboxRetry is how often an inbox is read that was removed. When its instance announces itself, it is there again, and messages arrive.
const inboxRetry = 100 * time.Millisecond

// Fetch implements store.Inboxes. It waits on a connection of its own, so it needs no permit.
func (s *Store) Fetch(ctx context.Context, p store.FetchParams) ([]store.InboxMessage, error) {
	inbox := s.keys.inbox(p.Inbox)
	read := s.client.redis.B().Xreadgroup().Group(inboxGroup, inboxGroup).Count(int64(p.Limit)).Block(max(p.Wait.Milliseconds(), 1)).
		Streams().Key(inbox).Id(">").Build()
	reply, err := s.client.reads.do(ctx, s.client.redis, read)
	if err != nil {
		return nil, nil //nolint:nilerr // the next read is sent to the primary of now
	}
	streams, err := reply.AsXReadSlices()
	if isNoInbox(err) { // it was removed while its instance was absent; the next announcement creates it again
		run.Sleep(ctx, min(p.Wait, inboxRetry))
		return nil, ctx.Err()
	}
	if isWrongType(err) {
		s.inboxRenewed.Delete(p.Inbox) // the next announcement creates it again
	}
	if err = convertError(err); err != nil {
		s.client.countError(err)
		s.client.logRefused(inbox, err)
		return nil, fmt.Errorf("inbox: %w", err)
	}
	now := s.client.clocks.serverTime(s.client.slotOf(inbox))
	messages := make([]store.InboxMessage, len(streams[inbox]))
	for i, e := range streams[inbox] {
		messages[i] = store.InboxMessage{ID: e.ID, Age: ageOfEntry(e.ID, now), Deliveries: 1}
		for j, f := range e.FieldValues {
			switch {
			case j == 0: // scripts read the first field too, whatever its name
				messages[i].Body = []byte(f.Value)
			case f.Field == postedField:
				messages[i].Age = ageOfEntry(f.Value, now)
			}
		}
	}
	return messages, nil
}

// isNoInbox reports whether there is no such inbox.
func isNoInbox(err error) bool {
	var reply *rueidis.RedisError
	return errors.As(err, &reply) && (strings.HasPrefix(reply.Error(), "NOGROUP") || strings.HasPrefix(reply.Error(), "UNBLOCKED"))
}

// ageOfEntry returns the age of a stream entry: its id contains the time at which it was added.
func ageOfEntry(id string, now int64) time.Duration {
	ms, _ := parseEntryID(id)
	return time.Duration(max(now-int64(ms), 0)) * time.Millisecond
}

// isEntryID reports whether a text can be the id of a stream entry.
func isEntryID(id string) bool {
	ms, seq, ok := strings.Cut(id, "-")
	_, errMS := strconv.ParseUint(ms, 10, 64)
	_, errSeq := strconv.ParseUint(seq, 10, 64)
	return ok && errMS == nil && errSeq == nil
}

// Pending implements store.Inboxes.
func (s *Store) Pending(ctx context.Context, p store.FetchParams) ([]store.InboxMessage, error) {
	now, r, err := s.client.runScript(ctx, &scriptPending, []string{s.keys.inbox(p.Inbox)}, millis(p.MinIdle), strconv.Itoa(p.Limit))
	if err != nil {
		return nil, err
	}
	return decodeMessages(r.list(0), now), nil
}

// decodeMessages decodes the messages that scripts return: id, time of the post, body and deliveries of each.
func decodeMessages(r reply, now int64) []store.InboxMessage {
	const each = 4
	list := make([]store.InboxMessage, 0, len(r.parts)/each)
	for i := 0; i+each <= len(r.parts); i += each {
		list = append(list, store.InboxMessage{ID: r.text(i), Age: ageOfEntry(r.text(i+1), now), Body: []byte(r.text(i + 2)),
			Deliveries: int(r.int(i + 3))})
	}
	return list
}

// Acknowledge implements store.Inboxes.
func (s *Store) Acknowledge(ctx context.Context, inbox core.InstanceID, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	_, _, err := s.client.runScript(ctx, &scriptAcknowledge, []string{s.keys.inbox(inbox)}, ids...)
	return err
}

// DeadLetter implements store.Inboxes.
func (s *Store) DeadLetter(ctx context.Context, p store.DeadLetterParams) (string, error) {
	_, r, err := s.client.runScript(ctx, &scriptDeadLetter, []string{s.keys.inbox(p.Inbox), s.keys.deadLetters(p.Inbox)},
		p.Message.ID, p.Reason, strconv.Itoa(p.Message.Deliveries), millis(p.Keep))
	if err != nil {
		return "", err
	}
	return r.text(0), nil
}

// FetchAbandoned implements store.AbandonedInboxes.
func (s *Store) FetchAbandoned(ctx context.Context, id core.InstanceID, limit int) ([]store.InboxMessage, error) {
	now, r, err := s.client.runScript(ctx, &scriptFetchAbandoned, []string{s.keys.presence(id), s.keys.inbox(id)}, strconv.Itoa(limit))
	if err != nil {
		return nil, err
	}
	return decodeMessages(r.list(0), now), nil
}

// RemoveInbox implements store.AbandonedInboxes.
func (s *Store) RemoveInbox(ctx context.Context, id core.InstanceID) (bool, error) {
	_, r, err := s.client.runScript(ctx, &scriptRemoveInbox, []string{s.keys.presence(id), s.keys.inbox(id), s.keys.deadLetters(id)})
	if err != nil || r.int(0) == 0 {
		return false, err
	}
	if r.int(1) > 0 {
		return true, nil // the dead letters are found by the name
	}
	_, err = s.client.command(ctx, s.client.redis.B().Zrem().Key(s.keys.schedulers()).Member(string(id)).Build())
	return true, err
}

// DeadLetters implements store.AbandonedInboxes.
func (s *Store) DeadLetters(ctx context.Context, inbox core.InstanceID, after string, limit int) ([]store.DeadLetter, error) {
	key, start := s.keys.deadLetters(inbox), "-"
	if after != "" {
		start = "(" + after
	}
	m, err := s.client.command(ctx, s.client.redis.B().Xrange().Key(key).Start(start).End("+").Count(int64(limit)).Build())
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	entries, err := m.AsXRange()
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	now := s.client.clocks.serverTime(s.client.slotOf(key))
	list := make([]store.DeadLetter, len(entries))
	for i, e := range entries {
		deliveries, _ := strconv.Atoi(e.FieldValues["n"])
		list[i] = store.DeadLetter{Inbox: inbox, Reason: e.FieldValues["r"], InboxMessage: store.InboxMessage{
			ID: e.ID, Body: []byte(e.FieldValues["b"]), Age: ageOfEntry(e.FieldValues[postedField], now), Deliveries: deliveries,
		}}
	}
	return list, nil
}

// Discard implements store.AbandonedInboxes.
func (s *Store) Discard(ctx context.Context, inbox core.InstanceID, ids ...string) (int, error) {
	// Redis answers an error for any other text
	valid := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !isEntryID(id) })
	if len(valid) == 0 && len(ids) > 0 {
		return 0, nil
	}
	return s.discard(ctx, inbox, "", valid...)
}

// discard removes dead letters that no other instance than the given one has claimed.
func (s *Store) discard(ctx context.Context, inbox core.InstanceID, instance string, ids ...string) (int, error) {
	_, r, err := s.client.runScript(ctx, &scriptDiscard, []string{s.keys.deadLetters(inbox), s.keys.claims(inbox)},
		append([]string{instance}, ids...)...)
	if err != nil {
		return 0, err
	}
	return int(r.int(0)), nil
}

const (
	claimTTL    = 10 * time.Second // how long the instance that replays a dead letter has it to itself
	replayedTTL = 2 * claimTTL     // how long a repeated replay to the same instance is recognised
)

// Replay implements store.AbandonedInboxes. The dead letters and the inbox are in different slots, so it takes three steps: the dead letter
// is claimed, appended to the inbox, and removed. An instance that dies in between leaves a dead letter that can be replayed again.
func (s *Store) Replay(ctx context.Context, p store.ReplayParams) (store.PostResult, error) {
	if !isEntryID(p.ID) { // Redis would answer an error
		return store.NoDeadLetter, nil
	}
	claim := func(ttl time.Duration) (reply, error) {
		_, r, err := s.client.runScript(ctx, &scriptClaimDeadLetter, []string{s.keys.deadLetters(p.Inbox), s.keys.claims(p.Inbox)}, p.ID,
			string(p.To), millis(ttl))
		return r, err
	}
	claimed, err := claim(claimTTL)
	switch {
	case err != nil:
		return 0, err
	case claimed.int(0) == 0:
		return store.NoDeadLetter, nil
	}
	_, r, err := s.client.runScript(ctx, &scriptReplay,
		[]string{s.keys.presence(p.To), s.keys.inbox(p.To), s.keys.replayed(p.To, string(p.Inbox)+"/"+p.ID)},
		strconv.Itoa(p.MaxMessages), claimed.text(1), strconv.FormatInt(claimed.int(2), 10), millis(replayedTTL))
	if err != nil {
		return 0, err
	}
	if posted := store.PostResult(r.int(0)); posted != store.Accepted {
		_, err := claim(0)
		return posted, err
	}
	_, err = s.discard(ctx, p.Inbox, string(p.To), p.ID)
	return store.Accepted, err
}
