package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// settingBehaviours is the specification of Settings.
var settingBehaviours = []behaviour{
	{"a setting that was never published is none", testNoSetting},
	{"a published setting is loaded with its generation", testPublishedSetting},
	{"a setting that was replaced returns only if it is forced", testReplacedSetting},
	{"a setting that the store has lost is restored", testRestoredSetting},
	{"of concurrent publications one is in force for all", testConcurrentSettings},
}

// publish publishes a setting and returns what is in force.
func publish(t *testing.T, h *Harness, body string, force bool) store.Setting {
	t.Helper()
	got, err := h.Store.PublishSetting(t.Context(), store.SettingParams{Name: "pools", Body: []byte(body), Force: force})
	if err != nil {
		t.Error(err)
	}
	return got
}

func wantSetting(t *testing.T, generation int64, body string, got store.Setting) {
	t.Helper()
	if diff := cmp.Diff(store.Setting{Generation: generation, Digest: store.SettingDigest([]byte(body)), Body: []byte(body)}, got); diff != "" {
		t.Errorf("the setting (-want +got):\n%s", diff)
	}
}

func loadSetting(t *testing.T, h *Harness, name string, known store.Setting) store.Setting {
	t.Helper()
	got, err := h.Store.LoadSetting(t.Context(), name, known)
	if err != nil {
		t.Error(err)
	}
	return got
}

func testNoSetting(t *testing.T, h *Harness) {
	publish(t, h, "one", false)
	if got := loadSetting(t, h, "another", store.Setting{}); got.Generation != 0 || got.Body != nil {
		t.Errorf("%+v", got)
	}
}

func testPublishedSetting(t *testing.T, h *Harness) {
	wantSetting(t, 1, "one\x00binary", publish(t, h, "one\x00binary", false))
	wantSetting(t, 1, "one\x00binary", publish(t, h, "one\x00binary", true)) // it is in force
	first := loadSetting(t, h, "pools", store.Setting{})
	wantSetting(t, 1, "one\x00binary", first)
	if got := loadSetting(t, h, "pools", first); got.Generation != 1 || got.Body != nil {
		t.Errorf("the body of a known setting was sent: %+v", got)
	}
	wantSetting(t, 1, "one\x00binary", loadSetting(t, h, "pools", store.Setting{Generation: 1, Digest: store.SettingDigest([]byte("other"))}))
	wantSetting(t, 2, "two", publish(t, h, "two", false))
	wantSetting(t, 2, "two", loadSetting(t, h, "pools", first))
}

func testReplacedSetting(t *testing.T, h *Harness) {
	publish(t, h, "one", false)
	publish(t, h, "two", false)
	wantSetting(t, 2, "two", publish(t, h, "one", false)) // of an instance with an old file
	wantSetting(t, 3, "one", publish(t, h, "one", true))
	wantSetting(t, 3, "one", publish(t, h, "two", false))
	for i := range store.MaxSettingDigests {
		publish(t, h, fmt.Sprint("body ", i), false)
	}
	last := int64(3 + store.MaxSettingDigests)
	wantSetting(t, last, fmt.Sprint("body ", store.MaxSettingDigests-1), publish(t, h, "body 1", false))
	wantSetting(t, last+1, "one", publish(t, h, "one", false)) // it is forgotten
}

func testRestoredSetting(t *testing.T, h *Harness) {
	restore := func(generation int64, body string) store.Setting {
		t.Helper()
		got, err := h.Store.RestoreSetting(t.Context(), "pools", store.Setting{Generation: generation, Body: []byte(body)})
		if err != nil {
			t.Error(err)
		}
		return got
	}
	publish(t, h, "old", false)
	wantSetting(t, 3, "lost", restore(3, "lost"))
	wantSetting(t, 3, "lost", restore(3, "another of the same generation"))
	wantSetting(t, 3, "lost", restore(2, "earlier"))
	wantSetting(t, 3, "lost", loadSetting(t, h, "pools", store.Setting{}))
	wantSetting(t, 3, "lost", publish(t, h, "old", false)) // it is known as replaced
	got, err := h.Store.PublishSetting(t.Context(), store.SettingParams{Name: "pools", Body: []byte("new"), Known: 7})
	if err != nil {
		t.Error(err)
	}
	wantSetting(t, 8, "new", got) // the store had lost what the caller knew
}

func testConcurrentSettings(t *testing.T, h *Harness) {
	const authors = 20
	got := make([]store.Setting, authors)
	var publishing sync.WaitGroup
	for i := range authors {
		publishing.Go(func() { got[i] = publish(t, h, fmt.Sprint("of ", i), false) })
	}
	publishing.Wait()
	bodies := make(map[int64]string)
	for _, s := range got {
		if body, known := bodies[s.Generation]; known && body != string(s.Body) {
			t.Errorf("the generation %d is %q and %q", s.Generation, body, s.Body)
		}
		bodies[s.Generation] = string(s.Body)
	}
	// A repeated call returns what is in force by then.
	in := loadSetting(t, h, "pools", store.Setting{})
	if in.Generation != authors || bodies[authors] != "" && bodies[authors] != string(in.Body) {
		t.Errorf("%q of the generation %d is in force after %d publications; one of them was answered %q", in.Body, in.Generation, authors, bodies[authors])
	}
}
