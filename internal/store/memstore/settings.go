package memstore

import (
	"context"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// settings holds the settings by name. A setting is never changed, only replaced.
type settings struct {
	mu     run.Mutex
	byName map[string]store.Setting
}

// LoadSetting implements store.Settings.
func (s *Store) LoadSetting(_ context.Context, name string, known store.Setting) (store.Setting, error) {
	s.settings.mu.Lock()
	defer s.settings.mu.Unlock()
	out := s.settings.byName[name]
	if out.Generation == known.Generation && out.Digest == known.Digest {
		out.Body, out.Digests = nil, nil
	}
	return out, nil
}

// PublishSetting implements store.Settings.
func (s *Store) PublishSetting(ctx context.Context, p store.SettingParams) (store.Setting, error) {
	digest := store.SettingDigest(p.Body)
	return s.writeSetting(ctx, p.Name, func(current store.Setting) (store.Setting, bool) {
		next := store.Setting{Generation: max(current.Generation, p.Known.Generation) + 1, Digest: digest, Body: p.Body,
			Digests: p.Known.Digests}
		return next, !slices.Contains(current.Digests, digest) || p.Force && current.Digest != digest
	})
}

// RestoreSetting implements store.Settings.
func (s *Store) RestoreSetting(ctx context.Context, name string, lost store.Setting) (store.Setting, error) {
	lost.Digest = store.SettingDigest(lost.Body)
	return s.writeSetting(ctx, name,
		func(current store.Setting) (store.Setting, bool) { return lost, current.Generation < lost.Generation })
}

// AnnounceSetting implements store.Settings.
func (s *Store) AnnounceSetting(_ context.Context, name string) {
	s.watchers.publish(store.Change{Setting: name})
}

// writeSetting replaces a setting by the next one, if there is one, announces it and returns the one in force. The digests of both are
// kept.
func (s *Store) writeSetting(ctx context.Context, name string,
	replace func(current store.Setting) (next store.Setting, ok bool)) (store.Setting, error) {
	s.settings.mu.Lock()
	if err := ctx.Err(); err != nil {
		s.settings.mu.Unlock()
		return store.Setting{}, err
	}
	current := s.settings.byName[name]
	if next, ok := replace(current); ok {
		next.Body, next.Digests = slices.Clone(next.Body), mergeDigests(next.Digests, current.Digests, next.Digest)
		s.settings.byName[name] = next
		current = next
	}
	s.settings.mu.Unlock()
	s.AnnounceSetting(ctx, name)
	return current, nil
}

// mergeDigests returns the digests that a caller knows and those of the store, each once, and the last one at the end.
func mergeDigests(known, stored []string, last string) []string {
	var merged []string
	for _, digest := range slices.Concat(known, stored) {
		if digest != last && !slices.Contains(merged, digest) {
			merged = append(merged, digest)
		}
	}
	merged = append(merged, last)
	return merged[max(0, len(merged)-store.MaxSettingDigests):]
}
