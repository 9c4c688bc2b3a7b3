package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// logField is the field of a stream entry that holds the body of an entry of a log.
const logField = "e"

// logPosition is the pattern of positions: ids of stream entries.
var logPosition = regexp.MustCompile(`^\d{1,19}-\d{1,19}$`)

// firstPosition is the pattern of the position before which there can be no entry.
var firstPosition = regexp.MustCompile(`^0+-0+$`)

// AppendLog implements store.Logs. A log is a capped stream. A key of another type is removed first, as by write.
func (s *Store) AppendLog(ctx context.Context, log store.Log, entries [][]byte) error {
	c, key := s.client, s.keys.log(log)
	cmds := make([]rueidis.Completed, len(entries))
	for i, body := range entries {
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
			return s.AppendLog(ctx, log, entries)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ReadLog implements store.Logs.
func (s *Store) ReadLog(ctx context.Context, log store.Log, p store.ReadLogParams) (store.LogPage, error) {
	c, key := s.client, s.keys.log(log)
	if p.After == "" {
		end := "+"
		if p.Before != "" {
			if !logPosition.MatchString(p.Before) {
				return store.LogPage{}, fmt.Errorf("%w: %q", store.ErrBadPosition, p.Before)
			}
			if firstPosition.MatchString(p.Before) {
				return store.LogPage{}, nil // Redis refuses a range that cannot contain anything
			}
			end = "(" + p.Before
		}
		newest, err := c.readEntries(ctx, c.redis.B().Xrevrange().Key(key).End(end).Start("-").Count(int64(p.Limit)).Build())
		slices.Reverse(newest)
		return store.LogPage{Entries: logEntries(newest)}, err
	}
	if !logPosition.MatchString(p.After) {
		return store.LogPage{}, fmt.Errorf("%w: %q", store.ErrBadPosition, p.After)
	}
	next, err := c.readEntries(ctx, c.redis.B().Xrange().Key(key).Start("("+p.After).End("+").Count(int64(p.Limit)).Build())
	if err != nil {
		return store.LogPage{}, err
	}
	oldest, err := c.readEntries(ctx, c.redis.B().Xrange().Key(key).Start("-").End("+").Count(1).Build())
	if err != nil {
		return store.LogPage{}, err
	}
	return store.LogPage{Entries: logEntries(next), Gap: len(oldest) > 0 && compareEntryIDs(p.After, oldest[0].ID) < 0}, nil
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

// logEntries converts entries of a stream to those of the log.
func logEntries(entries []rueidis.XRangeEntry) []store.LogEntry {
	converted := make([]store.LogEntry, len(entries))
	for i, entry := range entries {
		converted[i] = store.LogEntry{ID: entry.ID, Body: []byte(entry.FieldValues[logField])}
	}
	return converted
}
