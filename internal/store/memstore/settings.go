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
	current := s.setting(p.Name)
	digest := store.SettingDigest(p.Body)
	at := slices.Index(current.digests, digest)
	if at >= 0 && (at == len(current.digests)-1 || !p.Force) {
		return current.Setting, nil
	}
	current.noteDigest(digest)
	current.Setting = store.Setting{Generation: max(current.Generation, p.Known) + 1, Digest: digest, Body: slices.Clone(p.Body)}
	return current.Setting, nil
}

// RestoreSetting implements store.Settings.
func (s *Store) RestoreSetting(ctx context.Context, name string, lost store.Setting) (store.Setting, error) {
	s.settings.mu.Lock()
	defer s.settings.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return store.Setting{}, err
	}
	current := s.setting(name)
	if current.Generation < lost.Generation {
		digest := store.SettingDigest(lost.Body)
		current.noteDigest(digest)
		current.Setting = store.Setting{Generation: lost.Generation, Digest: digest, Body: slices.Clone(lost.Body)}
	}
	return current.Setting, nil
}

// setting returns a setting, which is made if there is none. The caller holds the lock.
func (s *Store) setting(name string) *setting {
	current := s.settings.byName[name]
	if current == nil {
		current = new(setting)
		s.settings.byName[name] = current
	}
	return current
}

// noteDigest makes a digest the last one.
func (s *setting) noteDigest(digest string) {
	s.digests = append(slices.DeleteFunc(s.digests, func(d string) bool { return d == digest }), digest)
	if more := len(s.digests) - store.MaxSettingDigests; more > 0 {
		s.digests = slices.Delete(s.digests, 0, more)
	}
}
