package redisstore_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestBadSetting: what somebody else has written as a setting is none, and a setting that is published by force replaces it.
func TestBadSetting(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var prefix string
	s := open(t, server.URL(), func(o *redisstore.Options) { prefix = o.Prefix })
	key := prefix + ":v1:settings:pools"
	for name, write := range map[string][]string{
		"no number":       {"HSET", key, "generation", "x", "body", "{}", "digests", "0a"},
		"a negative one":  {"HSET", key, "generation", "-3", "body", "{}"},
		"no body":         {"HSET", key, "generation", "3"},
		"no digests":      {"HSET", key, "generation", "3", "body", "{}"},
		"no digest":       {"HSET", key, "generation", "3", "body", "{}", "digests", "0a 0b"},
		"another digest":  {"HSET", key, "generation", "3", "body", "{}", "digest", "0c", "digests", "zz"},
		"no generation":   {"HSET", key, "body", "{}"},
		"an empty number": {"HSET", key, "generation", "", "body", "{}"},
	} {
		for _, args := range [][]string{{"DEL", key}, write} {
			if _, err := server.Do(args...); err != nil {
				t.Fatal(err)
			}
		}
		for _, known := range []store.Setting{{}, {Generation: 3, Digest: "0a"}} {
			if got, err := s.LoadSetting(t.Context(), "pools", known); err != nil || got.Generation > 0 || got.Body != nil {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		got, err := s.PublishSetting(t.Context(), store.SettingParams{Name: "pools", Body: []byte("new"), Force: true})
		if err != nil || string(got.Body) != "new" || got.Generation < 1 {
			t.Errorf("%s: published %+v, %v", name, got, err)
		}
		if again, err := s.LoadSetting(t.Context(), "pools", got); err != nil || again.Body != nil {
			t.Errorf("%s: loaded %+v, %v", name, again, err)
		}
	}
	for _, args := range [][]string{{"DEL", key}, {"SET", key, "a string"}} {
		if _, err := server.Do(args...); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.LoadSetting(t.Context(), "pools", store.Setting{}); err != nil || got.Generation > 0 {
		t.Errorf("a string was read as %+v, %v", got, err)
	}
}
