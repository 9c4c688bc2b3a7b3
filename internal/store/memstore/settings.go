package memstore

import (
	"context"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/lockwait"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// settings holds the settings by name.
type settings struct {
	mu     lockwait.Mutex[lockwait.MemstoreSettings]
	byName map[string]*setting
}

type setting struct {
	store.Setting
	digests []string // of the bodies that are or were in force, the last one at the end
}

// LoadSetting implements store.Settings.
func (s *Store) LoadSetting(_ context.Context, name string, known store.Setting) (store.Setting, error) {
	s.settings.mu.Lock()
	defer s.settings.mu.Unlock()
	current := s.settings.byName[name]
	if current == nil {
		return store.Setting{}, nil
	}
	out := current.Setting
	if out.Generation == known.Generation && out.Digest == known.Digest {
		out.Body = nil
	}
	return out, nil
}

// PublishSetting implements store.Settings.
func (s *Store) PublishSetting(ctx context.Context, p store.SettingParams) (store.Setting, error) {
	s.settings.mu.Lock()
	defer s.settings.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return store.Setting{}, err
	}
	current := s.settings.byName[p.Name]
	if current == nil {
		current = new(setting)
		s.settings.byName[p.Name] = current
	}
	digest := store.SettingDigest(p.Body)
	at := slices.Index(current.digests, digest)
	if at >= 0 && (at == len(current.digests)-1 || !p.Force) {
		return current.Setting, nil
	}
	if at >= 0 {
		current.digests = slices.Delete(current.digests, at, at+1)
	}
	current.digests = append(current.digests, digest)
	if more := len(current.digests) - store.MaxSettingDigests; more > 0 {
		current.digests = slices.Delete(current.digests, 0, more)
	}
	current.Setting = store.Setting{Generation: current.Generation + 1, Digest: digest, Body: slices.Clone(p.Body)}
	return current.Setting, nil
}
