package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// AddRevocation implements store.Revocations.
func (s *Store) AddRevocation(ctx context.Context, p store.AddRevocationParams) (store.Revocation, error) {
	added := p.Revocation
	body, err := json.Marshal(&added)
	if err != nil {
		return store.Revocation{}, err
	}
	r, err := s.mergeRevocations(ctx, p.After, []string{added.String(), "0", millis(p.Keep), string(body)})
	if err != nil {
		return store.Revocation{}, err
	}
	times := r.texts(0)
	if len(times) != 2 {
		return store.Revocation{}, s.client.malformed(s.revocationKeys()[0])
	}
	added.At, added.Until = microTime(times[0]), milliTime(times[1])
	s.publishChange(ctx, "", changeRevoked)
	return added, nil
}

// maxRestored is how many entries one call puts back, so that it does not block Redis for long.
const maxRestored = 256

// RestoreRevocations implements store.Revocations.
func (s *Store) RestoreRevocations(ctx context.Context, entries []store.Revocation) error {
	for from := 0; from < len(entries); from += maxRestored {
		var args []string
		for i := range entries[from:min(from+maxRestored, len(entries))] {
			r := &entries[from+i]
			body, err := json.Marshal(r)
			if err != nil {
				return err
			}
			until := "0"
			if !r.Until.IsZero() {
				until = strconv.FormatInt(r.Until.UnixMilli(), 10)
			}
			args = append(args, r.String(), strconv.FormatInt(r.At.UnixMicro(), 10), until, string(body))
		}
		if _, err := s.mergeRevocations(ctx, time.Time{}, args); err != nil {
			return err
		}
	}
	return nil
}

// mergeRevocations runs merge_revocations.lua with the arguments of entries. New ones are later than a time.
func (s *Store) mergeRevocations(ctx context.Context, after time.Time, entries []string) (reply, error) {
	args := append([]string{uuid.NewString(), microText(after)}, entries...)
	_, r, err := s.client.runScript(ctx, &scriptMergeRevocation, s.revocationKeys(), args...)
	return r, err
}

// microText returns a time in microseconds as a number, "0" for none.
func microText(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

func (s *Store) revocationKeys() []string {
	entries, times, expiries, version := s.keys.revocations()
	return []string{entries, times, expiries, version}
}

// RevocationVersion implements store.Revocations.
func (s *Store) RevocationVersion(ctx context.Context) (string, error) {
	_, _, _, key := s.keys.revocations()
	version, err := s.getValue(ctx, key)
	return string(version), err
}

// ReadRevocations implements store.Revocations.
func (s *Store) ReadRevocations(ctx context.Context, after time.Time) (store.RevocationPage, error) {
	now, r, err := s.client.readScript(ctx, &scriptRevocations, s.revocationKeys(), microText(after))
	if isWrongType(err) { // a write removes what is of another type
		if _, err = s.mergeRevocations(ctx, time.Time{}, nil); err == nil {
			now, r, err = s.client.readScript(ctx, &scriptRevocations, s.revocationKeys(), microText(after))
		}
	}
	if err != nil {
		return store.RevocationPage{}, err
	}
	page := store.RevocationPage{Now: time.UnixMilli(now).UTC(), Count: int(r.int(1))}
	if !r.isNil(0) {
		page.Version = r.text(0)
	}
	for _, text := range r.texts(2) {
		entry, err := decodeRevocation(text)
		if err != nil {
			_ = s.client.malformed(s.revocationKeys()[0]) // logs it; the other entries are in force
			continue
		}
		if !entry.Expired(page.Now) {
			page.Entries = append(page.Entries, entry)
		}
	}
	return page, nil
}

// decodeRevocation decodes a stored entry: its time, when it is dropped, and its body.
func decodeRevocation(text string) (store.Revocation, error) {
	at, rest, _ := strings.Cut(text, " ")
	until, body, _ := strings.Cut(rest, " ")
	var entry store.Revocation
	if err := json.Unmarshal([]byte(body), &entry); err != nil {
		return entry, fmt.Errorf("a revocation cannot be read: %w", err)
	}
	entry.At, entry.Until = microTime(at), milliTime(until)
	return entry, nil
}

// microTime is a time in microseconds of a server's clock.
func microTime(text string) time.Time {
	micros, _ := strconv.ParseInt(text, 10, 64)
	return time.UnixMicro(micros).UTC()
}

// milliTime is a time in milliseconds of a server's clock; 0 is the zero time.
func milliTime(text string) time.Time {
	ms, _ := strconv.ParseInt(text, 10, 64)
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
