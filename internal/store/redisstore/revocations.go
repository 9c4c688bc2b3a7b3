package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// maxPut is how many entries one call of the script puts into the list, so that it does not block Redis for long.
const maxPut = 256

// PutRevocations implements store.Revocations.
func (s *Store) PutRevocations(ctx context.Context, p store.PutRevocationsParams) (put []store.Revocation, err error) {
	added := false
	for batch := range slices.Chunk(p.Entries, maxPut) {
		args := make([]string, 0, 4*len(batch))
		for i := range batch {
			r := &batch[i]
			body, err := json.Marshal(r)
			if err != nil {
				return nil, err
			}
			until := millis(p.Keep)
			if !r.At.IsZero() {
				until = milliText(r.Until)
			}
			added = added || r.At.IsZero()
			args = append(args, r.String(), microText(r.At), until, string(body))
		}
		reply, err := s.mergeRevocations(ctx, p.After, args)
		if err != nil {
			return nil, err
		}
		times := reply.texts(0)
		if len(times) != 2*len(batch) {
			return nil, s.client.malformed(s.revocationKeys()[0])
		}
		for i, r := range batch {
			if r.At, r.Until = microTime(times[2*i]), milliTime(times[2*i+1]); times[2*i] != notWritten {
				put = append(put, r)
			}
		}
	}
	if added {
		s.publishChange(ctx, "", changeRevoked)
	}
	return put, nil
}

// notWritten is the time in the reply of merge_revocations.lua of an entry that changes nothing.
const notWritten = "0"

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

// milliText returns a time in milliseconds as a number, "0" for none.
func milliText(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

func (s *Store) revocationKeys() []string {
	entries, times, expiries, version := s.keys.revocations()
	return []string{entries, times, expiries, version}
}

// ReadRevocations implements store.Revocations.
func (s *Store) ReadRevocations(ctx context.Context, after time.Time, known *string) (store.RevocationPage, error) {
	if known != nil {
		_, _, _, key := s.keys.revocations()
		version, err := s.getValue(ctx, key)
		if err != nil || string(version) == *known {
			return store.RevocationPage{Version: string(version)}, err
		}
	}
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
