package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// settingBehaviours is the specification of Settings.
var settingBehaviours = []behaviour{
	{"a setting that was never published is none", testNoSetting},
	{"a published setting is loaded with its generation", testPublishedSetting},
	{"a setting that was replaced returns only if it is forced", testReplacedSetting},
	{"a setting that the store has lost is restored", testRestoredSetting},
	{"the digests of a setting are restored with it", testRestoredDigests},
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
	want := store.Setting{Generation: generation, Digest: store.SettingDigest([]byte(body)), Body: []byte(body)}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.Setting{}, "Digests")); diff != "" {
		t.Errorf("the setting (-want +got):\n%s", diff)
	}
	if len(got.Digests) == 0 || got.Digests[len(got.Digests)-1] != want.Digest {
		t.Errorf("the digests %v of %s do not end with its own, %s", got.Digests, body, want.Digest)
	}
}

// digestsOf returns the digests of bodies.
func digestsOf(bodies ...string) []string {
	var digests []string
	for _, body := range bodies {
		digests = append(digests, store.SettingDigest([]byte(body)))
	}
	return digests
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
	if got := loadSetting(t, h, "pools", first); got.Generation != 1 || got.Body != nil || got.Digests != nil {
		t.Errorf("the body of a known setting was sent: %+v", got)
	}
	wantSetting(t, 1, "one\x00binary",
		loadSetting(t, h, "pools", store.Setting{Generation: 1, Digest: store.SettingDigest([]byte("other"))}))
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
	got, err := h.Store.PublishSetting(t.Context(),
		store.SettingParams{Name: "pools", Body: []byte("new"), Known: store.Setting{Generation: 7}})
	if err != nil {
		t.Error(err)
	}
	wantSetting(t, 8, "new", got) // the store had lost what the caller knew
}

// testRestoredDigests: what was replaced before the store lost it does not return afterwards without force, whether the setting was
// restored or another one was published by a caller that knew it.
func testRestoredDigests(t *testing.T, h *Harness) {
	publish(t, h, "start", false) // by an instance that started when the store was empty
	lost := store.Setting{Generation: 3, Body: []byte("three"), Digests: digestsOf("one", "start", "three")}
	got, err := h.Store.RestoreSetting(t.Context(), "pools", lost)
	if err != nil {
		t.Error(err)
	}
	wantSetting(t, 3, "three", got)
	for _, s := range []store.Setting{got, loadSetting(t, h, "pools", store.Setting{})} {
		if diff := cmp.Diff(digestsOf("one", "start", "three"), s.Digests); diff != "" {
			t.Errorf("digests (-want +got):\n%s", diff)
		}
	}
	wantSetting(t, 3, "three", publish(t, h, "one", false))
	wantSetting(t, 3, "three", publish(t, h, "start", false))

	known := store.Setting{Generation: 9, Digests: digestsOf("eight", "three", "nine")}
	got, err = h.Store.PublishSetting(t.Context(), store.SettingParams{Name: "pools", Body: []byte("ten"), Force: true, Known: known})
	if err != nil {
		t.Error(err)
	}
	wantSetting(t, 10, "ten", got)
	if diff := cmp.Diff(digestsOf("eight", "three", "nine", "one", "start", "ten"), got.Digests); diff != "" {
		t.Errorf("digests (-want +got):\n%s", diff)
	}
	wantSetting(t, 10, "ten", publish(t, h, "eight", false))

	many := store.Setting{Generation: 20, Body: []byte("last")}
	for i := range store.MaxSettingDigests {
		many.Digests = append(many.Digests, digestsOf(fmt.Sprint("body ", i))...)
	}
	if got, err = h.Store.RestoreSetting(t.Context(), "pools", many); err != nil || len(got.Digests) != store.MaxSettingDigests {
		t.Errorf("%d digests, %v, want %d", len(got.Digests), err, store.MaxSettingDigests)
	}
	wantSetting(t, 20, "last", got)
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
		t.Errorf("%q of the generation %d is in force after %d publications; one of them was answered %q", in.Body, in.Generation, authors,
			bodies[authors])
	}
}
