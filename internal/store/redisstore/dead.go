package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// DeadLetters implements store.Estates.
func (s *Store) DeadLetters(ctx context.Context, inbox core.InstanceID, after string, limit int) ([]store.DeadLetter, error) {
	dead, start := s.keys.dead(inbox), "-"
	if after != "" {
		start = "(" + after
	}
	m, err := s.line.one(s.line.begin(ctx), s.line.redis.B().Xrange().Key(dead).Start(start).End("+").Count(int64(limit)).Build())
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	entries, err := m.AsXRange()
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	now := s.line.clocks.server(s.line.slot(dead))
	list := make([]store.DeadLetter, len(entries))
	for i, e := range entries {
		deliveries, _ := strconv.Atoi(e.FieldValues["n"])
		list[i] = store.DeadLetter{Inbox: inbox, Reason: e.FieldValues["r"], InboxMessage: store.InboxMessage{
			ID: e.ID, Body: []byte(e.FieldValues["b"]), Age: age(e.FieldValues[postedField], now), Deliveries: deliveries,
		}}
	}
	return list, nil
}

// Discard implements store.Estates.
func (s *Store) Discard(ctx context.Context, inbox core.InstanceID, ids ...string) (int, error) {
	possible := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !entryID(id) }) // Redis calls the others an error
	if len(possible) == 0 && len(ids) > 0 {
		return 0, nil
	}
	return s.discard(ctx, inbox, "", possible...)
}

func (s *Store) discard(ctx context.Context, inbox core.InstanceID, who string, ids ...string) (int, error) {
	_, r, err := s.line.run(ctx, &scriptDiscard, []string{s.keys.dead(inbox), s.keys.claims(inbox)}, append([]string{who}, ids...)...)
	if err != nil {
		return 0, err
	}
	return int(r.int(0)), nil
}

const (
	claimFor    = 10 * time.Second // how long a dead letter is kept for whoever replays it
	replayedFor = 2 * claimFor     // how long it is remembered that it was put into an inbox
)

// Replay implements store.Estates. Dead letters and the inbox lie in different slots, so it takes three steps: the letter is
// claimed, put into the inbox, and dropped. Whoever dies between two of them leaves a letter that is still among the dead.
func (s *Store) Replay(ctx context.Context, p store.ReplayParams) (store.PostResult, error) {
	if !entryID(p.ID) { // Redis would call it an error
		return store.NoDeadLetter, nil
	}
	who := string(p.To)
	claim := func(ttl time.Duration) (reply, error) {
		_, r, err := s.line.run(ctx, &scriptClaim, []string{s.keys.dead(p.Inbox), s.keys.claims(p.Inbox)}, p.ID, who, millis(ttl))
		return r, err
	}
	letter, err := claim(claimFor)
	switch {
	case err != nil:
		return 0, err
	case letter.int(0) == 0:
		return store.NoDeadLetter, nil
	}
	_, r, err := s.line.run(ctx, &scriptReplay,
		[]string{s.keys.presence(p.To), s.keys.inbox(p.To), s.keys.replayed(p.To, string(p.Inbox)+"/"+p.ID)},
		strconv.Itoa(p.MaxMessages), letter.text(1), strconv.FormatInt(letter.int(2), 10), millis(replayedFor))
	if err != nil {
		return 0, err
	}
	if posted := store.PostResult(r.int(0)); posted != store.Accepted {
		_, err := claim(0)
		return posted, err
	}
	_, err = s.discard(ctx, p.Inbox, who, p.ID)
	return store.Accepted, err
}
