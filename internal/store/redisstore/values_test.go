package redisstore_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestStoredValues pins what Redis holds of the values, and that what other versions of this program have written is read: they use the same
// Redis while instances are replaced one by one.
func TestStoredValues(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var prefix string
	s := open(t, server.URL(), func(o *redisstore.Options) { prefix = o.Prefix })
	do := func(args ...string) any {
		t.Helper()
		reply, err := server.Do(args...)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	body := map[string][]byte{store.BodyPart: []byte("body")}
	for _, p := range []store.WriteValueParams{
		{Key: store.ValueKey{Kind: store.CountsValue, Name: "i-1"}, Parts: body, TTL: time.Minute},
		{Key: store.ValueKey{Kind: store.LastNodeValue, Name: "acme/room"}, Parts: body, TTL: time.Minute},
		{Key: store.ValueKey{Kind: store.SnapshotValue}, Parts: body, TTL: time.Minute, Fence: 7},
		{Key: store.ValueKey{Kind: store.HistoryValue}, Parts: map[string][]byte{"part:m1": []byte("body")}, TTL: time.Minute, Fence: 7},
		{Key: store.ValueKey{Kind: store.SettingValue, Name: "pools"}, Parts: body},
	} {
		if written, err := s.WriteValue(t.Context(), p); err != nil || !written {
			t.Fatalf("%v: %v, %v", p.Key, written, err)
		}
	}
	for _, key := range []string{":v1:stats:counts:{instance:i-1}", ":v1:sessions:{session:acme/room}:last_node"} {
		if got := do("GET", prefix+key); got != "body" {
			t.Errorf("%s has %v", key, got)
		}
	}
	for key, want := range map[string][]string{
		":v1:stats:snapshot": {"body", "fence", "published"}, ":v1:stats:history": {"fence", "part:m1", "published"}, ":v1:settings:pools": {"body", "published"},
	} {
		fields, _ := do("HKEYS", prefix+key).([]any)
		var got []string
		for _, f := range fields {
			got = append(got, f.(string))
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}

	setting := store.ValueKey{Kind: store.SettingValue, Name: "pools"}
	ours, err := store.ReadValue(t.Context(), s, store.ValueQuery{Key: setting})
	if err != nil {
		t.Fatal(err)
	}
	do("HSET", prefix+":v1:settings:pools", "generation", "8", "body", "theirs", "digest", "0a", "digests", "0a")
	p := store.WriteValueParams{Key: setting, Parts: body, Replaces: &ours.Version}
	if written, err := s.WriteValue(t.Context(), p); err != nil || written {
		t.Errorf("a setting that an earlier version has published was replaced: %v", err)
	}
	theirs, err := store.ReadValue(t.Context(), s, store.ValueQuery{Key: setting, Known: ours.Version})
	want := map[string][]byte{"generation": []byte("8"), "body": []byte("theirs"), "digest": []byte("0a"), "digests": []byte("0a")}
	if diff := cmp.Diff(want, theirs.Parts); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}

	do("DEL", prefix+":v1:stats:history")
	do("HSET", prefix+":v1:stats:history", "fence", "9", "extended", "1700000000000", "part:m1", "theirs")
	history := store.WriteValueParams{Key: store.ValueKey{Kind: store.HistoryValue}, Parts: map[string][]byte{"part:m2": []byte("ours")}, Fence: 8, TTL: time.Minute}
	if written, err := s.WriteValue(t.Context(), history); err != nil || written {
		t.Errorf("the history of a later leader was changed: %v", err)
	}
	history.Fence = 10
	if written, err := s.WriteValue(t.Context(), history); err != nil || !written {
		t.Errorf("the history of an earlier leader was not changed: %v", err)
	}
	got, err := store.ReadValue(t.Context(), s, store.ValueQuery{Key: history.Key})
	if names := slices.Sorted(maps.Keys(got.Parts)); err != nil || !slices.Contains(names, "part:m1") || !slices.Contains(names, "part:m2") {
		t.Errorf("the history has the parts %q, %v", names, err)
	}
}

// TestValueOfAnotherType: a key of another type holds no value, and a write replaces it.
func TestValueOfAnotherType(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var prefix string
	s := open(t, server.URL(), func(o *redisstore.Options) { prefix = o.Prefix })
	if _, err := server.Do("SET", prefix+":v1:settings:pools", "a string"); err != nil {
		t.Fatal(err)
	}
	key := store.ValueKey{Kind: store.SettingValue, Name: "pools"}
	read := func(ctx context.Context, known string) store.Value {
		t.Helper()
		v, err := store.ReadValue(ctx, s, store.ValueQuery{Key: key, Known: known})
		if err != nil {
			t.Error(err)
		}
		return v
	}
	for _, known := range []string{"", "  3 0a "} {
		if v := read(t.Context(), known); v.Version != "" || v.Parts != nil {
			t.Errorf("a string was read as %+v", v)
		}
	}
	p := store.WriteValueParams{Key: key, Parts: map[string][]byte{store.BodyPart: []byte("new")}, Replaces: new(string)}
	if written, err := s.WriteValue(t.Context(), p); err != nil || !written {
		t.Errorf("%v, %v", written, err)
	}
	if v := read(t.Context(), ""); string(v.Parts[store.BodyPart]) != "new" {
		t.Errorf("%+v, want what was written", v)
	}
}
