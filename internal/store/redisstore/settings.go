package redisstore

import (
	"context"
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// LoadSetting implements store.Settings.
func (s *Store) LoadSetting(ctx context.Context, name string, known store.Setting) (store.Setting, error) {
	_, r, err := s.client.readScript(ctx, &scriptSetting, []string{s.keys.setting(name)}, strconv.FormatInt(known.Generation, 10), known.Digest)
	if err != nil || r.isNil(0) {
		return store.Setting{}, err
	}
	out := store.Setting{Generation: r.int(0), Digest: r.text(1)}
	if !r.isNil(2) {
		out.Body = []byte(r.text(2))
	}
	return out, nil
}

// PublishSetting implements store.Settings.
func (s *Store) PublishSetting(ctx context.Context, p store.SettingParams) (store.Setting, error) {
	mode := "publish"
	if p.Force {
		mode = "force"
	}
	return s.writeSetting(ctx, p.Name, mode, store.Setting{Generation: p.Known, Body: p.Body})
}

// RestoreSetting implements store.Settings.
func (s *Store) RestoreSetting(ctx context.Context, name string, lost store.Setting) (store.Setting, error) {
	return s.writeSetting(ctx, name, "restore", lost)
}

func (s *Store) writeSetting(ctx context.Context, name, mode string, next store.Setting) (store.Setting, error) {
	_, r, err := s.client.runScript(ctx, &scriptPublishSetting, []string{s.keys.setting(name)},
		string(next.Body), store.SettingDigest(next.Body), mode, strconv.Itoa(store.MaxSettingDigests), strconv.FormatInt(next.Generation, 10))
	if err != nil {
		return store.Setting{}, err
	}
	body := []byte(r.text(1))
	return store.Setting{Generation: r.int(0), Digest: store.SettingDigest(body), Body: body}, nil
}
