package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// A value that has a version is a hash with a field for each part, and these two.
const (
	fenceField     = "fence"     // of the last author, if it had one
	publishedField = "published" // when it was last written, in ms on the clock of the server
)

// versionFields are the fields that make the version of a value. The last two are parts of a setting, which earlier versions of this
// program write without a time.
var versionFields = []string{fenceField, publishedField, "generation", "digest"}

// anyVersion is the argument of write_value for a write that replaces any version.
const anyVersion = "*"

// noVersion is the version of a value that has none of the fields.
var noVersion = strings.Repeat(" ", len(versionFields))

// versionOf returns the version of a value with these fields. Each of versionFields is followed by a space, as in write_value.lua.
func versionOf(fields map[string]string) string {
	var version strings.Builder
	for _, name := range versionFields {
		version.WriteString(fields[name] + " ")
	}
	return version.String()
}

// valueKey returns the key of a value, and whether it is a string, which is its body, rather than a hash.
func (s *Store) valueKey(k store.ValueKey) (key string, isString bool) {
	switch k.Kind {
	case store.CountsValue:
		return s.keys.counts(core.InstanceID(k.Name)), true
	case store.LastNodeValue:
		return s.keys.lastNode(k.Name), true
	case store.SnapshotValue:
		return s.keys.snapshot(), false
	case store.HistoryValue:
		return s.keys.history(), false
	}
	return s.keys.setting(k.Name), false
}

// ReadValues implements store.Values. Strings are read together, and each hash by one command, or by two if its version is not the one that
// is known.
func (s *Store) ReadValues(ctx context.Context, queries ...store.ValueQuery) ([]store.Value, error) {
	values := make([]store.Value, len(queries))
	var keys []string
	var at []int // the index of the query of each key
	for i, q := range queries {
		key, isString := s.valueKey(q.Key)
		if isString {
			keys, at = append(keys, key), append(at, i)
			continue
		}
		var err error
		if values[i], err = s.readHash(ctx, key, q.Known); err != nil {
			return nil, fmt.Errorf("read value: %w", err)
		}
	}
	bodies, err := s.getValues(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("read value: %w", err)
	}
	for i, body := range bodies {
		if body != nil {
			values[at[i]].Parts = map[string][]byte{store.BodyPart: body}
		}
	}
	return values, nil
}

// readHash reads a value that is a hash. A key of another type is none: the next write replaces it.
func (s *Store) readHash(ctx context.Context, key, known string) (store.Value, error) {
	if known != "" {
		fields, err := s.readVersion(ctx, key)
		if err != nil || versionOf(fields) == known {
			return store.Value{Version: known, Age: s.ageOfValue(key, fields)}, err
		}
	}
	m, err := s.client.command(ctx, s.client.redis.B().Hgetall().Key(key).Build())
	if isWrongType(err) {
		return store.Value{}, nil
	}
	if err != nil {
		return store.Value{}, err
	}
	fields, err := m.AsStrMap()
	if err != nil || len(fields) == 0 {
		return store.Value{}, err
	}
	value := store.Value{Version: versionOf(fields), Parts: make(map[string][]byte, len(fields)), Age: s.ageOfValue(key, fields)}
	for name, text := range fields {
		if name != fenceField && name != publishedField {
			value.Parts[name] = []byte(text)
		}
	}
	return value, nil
}

// readVersion reads the fields that make the version of a value; none of a key of another type.
func (s *Store) readVersion(ctx context.Context, key string) (map[string]string, error) {
	m, err := s.client.command(ctx, s.client.redis.B().Hmget().Key(key).Field(versionFields...).Build())
	if isWrongType(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parts, err := m.ToArray()
	if err != nil || len(parts) != len(versionFields) {
		return nil, s.client.malformed(key)
	}
	fields := make(map[string]string, len(parts))
	for i := range parts {
		fields[versionFields[i]], _ = parts[i].ToString() // none where it is nil
	}
	return fields, nil
}

// ageOfValue returns the time since a value was published; 0 if that is not known.
func (s *Store) ageOfValue(key string, fields map[string]string) time.Duration {
	at, err := strconv.ParseInt(fields[publishedField], 10, 64)
	if err != nil {
		return 0
	}
	return max(0, time.Duration(s.client.clocks.serverTime(s.client.slotOf(key))-at)*time.Millisecond)
}

// WriteValue implements store.Values.
func (s *Store) WriteValue(ctx context.Context, p store.WriteValueParams) (bool, error) {
	if len(p.Parts) > 0 || p.Fence > 0 {
		if written, err := s.writeParts(ctx, &p); err != nil || !written {
			return false, err
		}
	}
	if p.Announce {
		s.publishChange(ctx, "", changeSetting, settingField, p.Key.Name)
	}
	return true, nil
}

func (s *Store) writeParts(ctx context.Context, p *store.WriteValueParams) (bool, error) {
	key, isString := s.valueKey(p.Key)
	if isString {
		return true, s.setValue(ctx, key, p.Parts[store.BodyPart], p.TTL)
	}
	replaces := anyVersion
	if p.Replaces != nil {
		if replaces = *p.Replaces; replaces == "" {
			replaces = noVersion
		}
	}
	args := []string{strconv.FormatInt(p.Fence, 10), millis(p.TTL), replaces}
	for name, body := range p.Parts {
		args = append(args, name, string(body))
	}
	_, r, err := s.client.runScript(ctx, &scriptWriteValue, []string{key}, args...)
	if err != nil {
		return false, err
	}
	return r.int(0) == 1, nil
}
