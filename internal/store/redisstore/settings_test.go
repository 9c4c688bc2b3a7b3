package redisstore_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// TestBadSetting: what somebody else has written as a setting is an error or a setting that callers refuse, and a setting that is published by
// force replaces it.
func TestBadSetting(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var prefix string
	s := open(t, server.URL(), func(o *redisstore.Options) { prefix = o.Prefix })
	key := prefix + ":v1:settings:pools"
	for name, c := range map[string]struct {
		write []string
		fails bool // it cannot be read
	}{
		"no number":       {[]string{"HSET", key, "generation", "x", "body", "{}", "digests", "0a"}, true},
		"a negative one":  {[]string{"HSET", key, "generation", "-3", "body", "{}"}, true},
		"no body":         {[]string{"HSET", key, "generation", "3"}, false},
		"no digests":      {[]string{"HSET", key, "generation", "3", "body", "{}"}, false},
		"no digest":       {[]string{"HSET", key, "generation", "3", "body", "{}", "digests", "0a 0b"}, false},
		"another digest":  {[]string{"HSET", key, "generation", "3", "body", "{}", "digest", "0c", "digests", "zz"}, false},
		"no generation":   {[]string{"HSET", key, "body", "{}"}, false},
		"an empty number": {[]string{"HSET", key, "generation", "", "body", "{}"}, true},
	} {
		for _, args := range [][]string{{"DEL", key}, c.write} {
			if _, err := server.Do(args...); err != nil {
				t.Fatal(err)
			}
		}
		for _, known := range []store.Setting{{}, {Generation: 3, Digest: "0a"}} {
			if got, err := s.LoadSetting(t.Context(), "pools", known); (err != nil) != c.fails || err == nil && got.Generation > 0 && got.Body == nil {
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
	if got, err := s.LoadSetting(t.Context(), "pools", store.Setting{}); err == nil {
		t.Errorf("a string was read as %+v", got)
	}
}
