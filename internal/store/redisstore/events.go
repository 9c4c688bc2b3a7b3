package redisstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// eventField is the field of a stream entry that holds the event as JSON.
const eventField = "e"

// eventPosition is the pattern of positions: ids of stream entries.
var eventPosition = regexp.MustCompile(`^\d{1,19}-\d{1,19}$`)

// AppendEvents implements store.Events.
func (s *Store) AppendEvents(ctx context.Context, events []store.Event) error {
	cmds := make([]rueidis.Completed, len(events))
	for i := range events {
		body, err := json.Marshal(&events[i])
		if err != nil {
			return err
		}
		cmds[i] = s.client.redis.B().Xadd().Key(s.keys.events()).Maxlen().Almost().Threshold(strconv.Itoa(store.MaxEvents)).
			Id("*").FieldValue().FieldValue(eventField, string(body)).Build()
	}
	results, err := s.client.doMulti(s.client.beginCall(ctx), cmds)
	if err != nil {
		return err
	}
	for i := range results {
		if err := results[i].Error(); err != nil {
			return convertError(err)
		}
	}
	return nil
}

// ReadEvents implements store.Events.
func (s *Store) ReadEvents(ctx context.Context, p store.ReadEventsParams) (store.EventPage, error) {
	b, key := s.client.redis.B(), s.keys.events()
	if p.After == "" {
		newest, err := s.readEvents(ctx, b.Xrevrange().Key(key).End("+").Start("-").Count(int64(p.Limit)).Build())
		slices.Reverse(newest)
		return store.EventPage{Events: newest}, err
	}
	if !eventPosition.MatchString(p.After) {
		return store.EventPage{}, fmt.Errorf("%w: %q", store.ErrBadPosition, p.After)
	}
	next, err := s.readEvents(ctx, b.Xrange().Key(key).Start("("+p.After).End("+").Count(int64(p.Limit)).Build())
	if err != nil {
		return store.EventPage{}, err
	}
	oldest, err := s.readEvents(ctx, s.client.redis.B().Xrange().Key(key).Start("-").End("+").Count(1).Build())
	if err != nil {
		return store.EventPage{}, err
	}
	return store.EventPage{Events: next, Gap: len(oldest) > 0 && compareEntryIDs(p.After, oldest[0].ID) < 0}, nil
}

// compareEntryIDs compares the ids of two stream entries, such as 1526919030474-55.
func compareEntryIDs(a, b string) int {
	timeA, seqA, _ := strings.Cut(a, "-")
	timeB, seqB, _ := strings.Cut(b, "-")
	return cmp.Or(compareNumbers(timeA, timeB), compareNumbers(seqA, seqB))
}

// compareNumbers compares two decimal numbers.
func compareNumbers(a, b string) int {
	x, _ := strconv.ParseUint(a, 10, 64)
	y, _ := strconv.ParseUint(b, 10, 64)
	return cmp.Compare(x, y)
}

// readEvents runs a command that returns entries of the log.
func (s *Store) readEvents(ctx context.Context, cmd rueidis.Completed) ([]store.Event, error) {
	m, err := s.client.command(ctx, cmd)
	if err != nil {
		return nil, err
	}
	entries, err := m.AsXRange()
	if err != nil {
		return nil, err
	}
	events := make([]store.Event, 0, len(entries))
	for _, entry := range entries {
		e := store.Event{ID: entry.ID}
		if json.Unmarshal([]byte(entry.FieldValues[eventField]), &e) == nil { // an entry of another version is skipped
			events = append(events, e)
		}
	}
	return events, nil
}
