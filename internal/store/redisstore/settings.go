package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
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
	if err != nil || r.isNil(0) {
		return store.Setting{}, err
	}
	return parseSetting(name, r)
}

// readSetting reads fields of a setting.
func (s *Store) readSetting(ctx context.Context, name string, fields ...string) (reply, error) {
	m, err := s.client.command(ctx, s.client.redis.B().Hmget().Key(s.keys.setting(name)).Field(fields...).Build())
	if err != nil {
		return reply{}, fmt.Errorf("load setting: %w", err)
	}
	parts, err := m.ToArray()
	if err != nil {
		return reply{}, fmt.Errorf("load setting: %w", err)
	}
	return reply{parts: parts}, nil
}

// parseSetting converts a generation, a body and digests.
func parseSetting(name string, r reply) (store.Setting, error) {
	generation, err := strconv.ParseInt(r.text(0), 10, 64)
	if err != nil || generation < 1 {
		return store.Setting{}, fmt.Errorf("the setting %s in the store has the generation %q, which is not one", name, wire.Quote(r.text(0)))
	}
	body := []byte(r.text(1))
	return store.Setting{Generation: generation, Digest: store.SettingDigest(body), Body: body, Digests: strings.Fields(r.text(2))}, nil
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
	_, r, err := s.client.runScript(ctx, &scriptPublishSetting, []string{s.keys.setting(name)},
		string(next.Body), store.SettingDigest(next.Body), mode, strconv.Itoa(store.MaxSettingDigests), strconv.FormatInt(next.Generation, 10),
		strings.Join(next.Digests, " "))
	if err != nil {
		return store.Setting{}, err
	}
	s.AnnounceSetting(ctx, name) // also if it was in force before: this may be the repetition of a call whose reply was lost
	return parseSetting(name, r)
}

// AnnounceSetting implements store.Settings.
func (s *Store) AnnounceSetting(ctx context.Context, name string) {
	s.publishChange(ctx, "", changeSetting, settingField, name)
}
