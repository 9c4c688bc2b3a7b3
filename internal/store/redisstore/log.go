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

// logField is the field of a stream entry that holds an entry of a log as JSON.
const logField = "e"

// logPosition is the pattern of positions: ids of stream entries.
var logPosition = regexp.MustCompile(`^\d{1,19}-\d{1,19}$`)

// firstPosition is the pattern of the position before which there can be no entry.
var firstPosition = regexp.MustCompile(`^0+-0+$`)

// AppendEvents implements store.Events.
func (s *Store) AppendEvents(ctx context.Context, events []store.Event) error {
	return appendLog(ctx, s.client, s.keys.events(), events)
}

// ReadEvents implements store.Events.
func (s *Store) ReadEvents(ctx context.Context, p store.ReadLogParams) (store.LogPage[store.Event], error) {
	return readLog(ctx, s.client, s.keys.events(), p, func(e *store.Event, id string) { e.ID = id })
}

// AppendAudit implements store.Audit.
func (s *Store) AppendAudit(ctx context.Context, entries []store.AuditEntry) error {
	return appendLog(ctx, s.client, s.keys.audit(), entries)
}

// ReadAudit implements store.Audit.
func (s *Store) ReadAudit(ctx context.Context, p store.ReadLogParams) (store.LogPage[store.AuditEntry], error) {
	return readLog(ctx, s.client, s.keys.audit(), p, func(e *store.AuditEntry, id string) { e.ID = id })
}

// appendLog appends entries to a log, which is a capped stream. A key of another type is removed first, as by write.
func appendLog[T any](ctx context.Context, c *client, key string, entries []T) error {
	cmds := make([]rueidis.Completed, len(entries))
	for i := range entries {
		body, err := json.Marshal(&entries[i])
		if err != nil {
			return err
		}
		cmds[i] = c.redis.B().Xadd().Key(key).Maxlen().Almost().Threshold(strconv.Itoa(store.MaxLogEntries)).
			Id("*").FieldValue().FieldValue(logField, string(body)).Build()
	}
	results, err := c.doMulti(c.beginCall(ctx), cmds)
	if err != nil {
		return err
	}
	for i := range results {
		err := convertError(results[i].Error())
		if isWrongType(err) && i == 0 {
			if _, err := c.command(ctx, c.redis.B().Del().Key(key).Build()); err != nil {
				return err
			}
			return appendLog(ctx, c, key, entries)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readLog reads a part of a log. setID sets the position of an entry.
func readLog[T any](ctx context.Context, c *client, key string, p store.ReadLogParams, setID func(*T, string)) (store.LogPage[T], error) {
	if p.After == "" {
		end := "+"
		if p.Before != "" {
			if !logPosition.MatchString(p.Before) {
				return store.LogPage[T]{}, fmt.Errorf("%w: %q", store.ErrBadPosition, p.Before)
			}
			if firstPosition.MatchString(p.Before) {
				return store.LogPage[T]{Entries: []T{}}, nil // Redis refuses a range that cannot contain anything
			}
			end = "(" + p.Before
		}
		newest, err := c.readEntries(ctx, c.redis.B().Xrevrange().Key(key).End(end).Start("-").Count(int64(p.Limit)).Build())
		slices.Reverse(newest)
		return store.LogPage[T]{Entries: decodeEntries(newest, setID)}, err
	}
	if !logPosition.MatchString(p.After) {
		return store.LogPage[T]{}, fmt.Errorf("%w: %q", store.ErrBadPosition, p.After)
	}
	next, err := c.readEntries(ctx, c.redis.B().Xrange().Key(key).Start("("+p.After).End("+").Count(int64(p.Limit)).Build())
	if err != nil {
		return store.LogPage[T]{}, err
	}
	oldest, err := c.readEntries(ctx, c.redis.B().Xrange().Key(key).Start("-").End("+").Count(1).Build())
	if err != nil {
		return store.LogPage[T]{}, err
	}
	return store.LogPage[T]{Entries: decodeEntries(next, setID), Gap: len(oldest) > 0 && compareEntryIDs(p.After, oldest[0].ID) < 0}, nil
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

// readEntries runs a command that returns entries of a stream.
func (c *client) readEntries(ctx context.Context, cmd rueidis.Completed) ([]rueidis.XRangeEntry, error) {
	m, err := c.command(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return m.AsXRange()
}

// decodeEntries decodes the entries of a log. Entries of another version are skipped.
func decodeEntries[T any](entries []rueidis.XRangeEntry, setID func(*T, string)) []T {
	decoded := make([]T, 0, len(entries))
	for _, entry := range entries {
		var e T
		if json.Unmarshal([]byte(entry.FieldValues[logField]), &e) == nil {
			setID(&e, entry.ID)
			decoded = append(decoded, e)
		}
	}
	return decoded
}
