package redisstore

import (
	"context"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// LoadSetting implements store.Settings.
func (s *Store) LoadSetting(ctx context.Context, name string, known int64) (store.Setting, error) {
	_, r, err := s.client.readScript(ctx, &scriptSetting, []string{s.keys.setting(name)}, strconv.FormatInt(known, 10))
	if err != nil || r.isNil(0) {
		return store.Setting{}, err
	}
	out := store.Setting{Generation: r.int(0)}
	if !r.isNil(1) {
		out.Body = []byte(r.text(1))
	}
	return out, nil
}

// PublishSetting implements store.Settings.
func (s *Store) PublishSetting(ctx context.Context, p store.SettingParams) (store.Setting, error) {
	_, r, err := s.client.runScript(ctx, &scriptPublishSetting, []string{s.keys.setting(p.Name)},
		string(p.Body), p.Digest(), flag(p.Force), strconv.Itoa(store.MaxSettingDigests))
	if err != nil {
		return store.Setting{}, err
	}
	return store.Setting{Generation: r.int(0), Body: []byte(r.text(1))}, nil
}
