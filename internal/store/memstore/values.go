package memstore

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// maxLastNodes bounds of how many sessions the last node is remembered. The jobs of sessions beyond it are not spread.
const maxLastNodes = 100_000

// values holds the values that instances share.
type values struct {
	mu      run.Mutex
	byKey   map[store.ValueKey]*value
	written int // numbers the versions, from a random number: those of another store differ
	sweeper sweeper
}

// value is one value. Its bodies are replaced, and never changed.
type value struct {
	parts   map[string][]byte
	version int
	fence   int64
	at      moment
	expires moment
}

// has reports whether a value has parts, of which there are some.
func (v *value) has(parts map[string][]byte) bool {
	for name, body := range parts {
		if had, ok := v.parts[name]; !ok || !slices.Equal(had, body) {
			return false
		}
	}
	return len(parts) > 0
}

// versionText returns the version of a value; empty for none.
func (v *value) versionText() string {
	if v.version == 0 {
		return ""
	}
	return strconv.Itoa(v.version)
}

// get returns a value that has not expired; an empty one if there is none. The caller holds the lock.
func (s *values) get(key store.ValueKey, now moment) *value {
	if v := s.byKey[key]; v != nil && !expired(v.expires, now) {
		return v
	}
	return &value{parts: make(map[string][]byte)}
}

// ReadValues implements store.Values.
func (s *Store) ReadValues(_ context.Context, queries ...store.ValueQuery) ([]store.Value, error) {
	s.values.mu.Lock()
	defer s.values.mu.Unlock()
	now := s.now()
	read := make([]store.Value, len(queries))
	for i, q := range queries {
		v := s.values.get(q.Key, now)
		if v.version == 0 {
			continue
		}
		read[i] = store.Value{Version: v.versionText(), Age: now.since(v.at)}
		if read[i].Version != q.Known {
			read[i].Parts = maps.Clone(v.parts)
		}
	}
	return read, nil
}

// WriteValue implements store.Values.
func (s *Store) WriteValue(ctx context.Context, p store.WriteValueParams) (bool, error) {
	if len(p.Parts) > 0 || p.Fence > 0 {
		if written, err := s.writeParts(ctx, &p); err != nil || !written {
			return false, err
		}
	}
	if p.Announce {
		s.watchers.publish(store.Change{Setting: p.Key.Name})
	}
	return true, nil
}

func (s *Store) writeParts(ctx context.Context, p *store.WriteValueParams) (bool, error) {
	t := &s.values
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	now := s.now()
	t.sweeper.sweep(now, func() {
		maps.DeleteFunc(t.byKey, func(_ store.ValueKey, v *value) bool { return expired(v.expires, now) })
	})
	v := t.get(p.Key, now)
	repeated := v.has(p.Parts)
	switch {
	case p.Fence > 0 && v.fence > p.Fence, !repeated && p.Replaces != nil && *p.Replaces != v.versionText():
		return false, nil
	case p.Key.Kind == store.LastNodeValue && v.version == 0 && len(t.byKey) >= maxLastNodes:
		return true, nil
	case !repeated:
		t.written++
		v.version, v.at = t.written, now
		for name, body := range p.Parts {
			v.parts[name] = slices.Clone(body)
		}
	}
	v.fence, v.expires = max(v.fence, p.Fence), math.MaxInt64
	if p.TTL > 0 {
		v.expires = now.add(p.TTL)
	}
	t.byKey[p.Key] = v
	return true, nil
}
