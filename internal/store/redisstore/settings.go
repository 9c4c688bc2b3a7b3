package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// LoadSetting implements store.Settings. It is one command unless the setting has changed.
func (s *Store) LoadSetting(ctx context.Context, name string, known store.Setting) (store.Setting, error) {
	if known.Generation > 0 {
		r, err := s.readSetting(ctx, name, "generation", "digest")
		if err != nil {
			return store.Setting{}, err
		}
		if r.text(0) == strconv.FormatInt(known.Generation, 10) && r.text(1) == known.Digest {
			return store.Setting{Generation: known.Generation, Digest: known.Digest}, nil
		}
	}
	r, err := s.readSetting(ctx, name, "generation", "body", "digests")
	if err != nil {
		return store.Setting{}, err
	}
	setting, ok := parseSetting(r)
	if !ok && !r.isNil(0) {
		_ = s.client.malformed(s.keys.setting(name)) // logs it
	}
	return setting, nil
}

// readSetting reads fields of a setting.
func (s *Store) readSetting(ctx context.Context, name string, fields ...string) (reply, error) {
	key := s.keys.setting(name)
	m, err := s.client.command(ctx, s.client.redis.B().Hmget().Key(key).Field(fields...).Build())
	if isWrongType(err) {
		return reply{parts: make([]rueidis.RedisMessage, len(fields))}, nil
	}
	if err != nil {
		return reply{}, fmt.Errorf("load setting: %w", err)
	}
	parts, err := m.ToArray()
	if err != nil || len(parts) != len(fields) {
		return reply{}, fmt.Errorf("load setting: %w", s.client.malformed(key))
	}
	return reply{parts: parts}, nil
}

// maxGeneration is more than any setting has: Lua keeps the digits of smaller numbers.
const maxGeneration = 1 << 53

// parseSetting converts a generation, a body and digests, of which the last is that of the body. It reports false if they are not those of
// a setting: then none is known, as after a loss, and an instance that knows the setting restores it.
func parseSetting(r reply) (store.Setting, bool) {
	generation, err := strconv.ParseInt(r.text(0), 10, 64)
	body, digests := []byte(r.text(1)), strings.Fields(r.text(2))
	setting := store.Setting{Generation: generation, Digest: store.SettingDigest(body), Body: body, Digests: digests}
	if err != nil || generation < 1 || generation >= maxGeneration || len(digests) == 0 || digests[len(digests)-1] != setting.Digest {
		return store.Setting{}, false
	}
	return setting, true
}

// PublishSetting implements store.Settings.
func (s *Store) PublishSetting(ctx context.Context, p store.SettingParams) (store.Setting, error) {
	mode := "publish"
	if p.Force {
		mode = "force"
	}
	return s.writeSetting(ctx, p.Name, mode, store.Setting{Generation: p.Known.Generation, Body: p.Body, Digests: p.Known.Digests})
}

// RestoreSetting implements store.Settings.
func (s *Store) RestoreSetting(ctx context.Context, name string, lost store.Setting) (store.Setting, error) {
	return s.writeSetting(ctx, name, "restore", lost)
}

func (s *Store) writeSetting(ctx context.Context, name, mode string, next store.Setting) (store.Setting, error) {
	args := []string{
		string(next.Body), store.SettingDigest(next.Body), mode, strconv.Itoa(store.MaxSettingDigests),
		strconv.FormatInt(next.Generation, 10),
		strings.Join(next.Digests, " "),
	}
	for range maxTries {
		_, r, err := s.client.runScript(ctx, &scriptPublishSetting, []string{s.keys.setting(name)}, args...)
		if err != nil {
			return store.Setting{}, err
		}
		if setting, ok := parseSetting(r); ok {
			s.AnnounceSetting(ctx, name) // also if it was in force before: this may be the repetition of a call whose reply was lost
			return setting, nil
		}
		args = append(args[:6:6], r.text(1)) // replace the one that is in force and cannot be read
	}
	return store.Setting{}, s.client.malformed(s.keys.setting(name))
}

// AnnounceSetting implements store.Settings.
func (s *Store) AnnounceSetting(ctx context.Context, name string) {
	s.publishChange(ctx, "", changeSetting, settingField, name)
}
