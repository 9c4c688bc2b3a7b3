package pools_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/pools"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// settingOf is a setting at a generation, after others. Bodies are their own digests in the table below.
func settingOf(generation int64, bodies ...string) pools.Setting {
	s := pools.Setting{Generation: generation}
	for _, body := range bodies {
		s.Body, s.Digest = []byte(body), pools.Digest([]byte(body))
		s.Digests = append(s.Digests, s.Digest)
	}
	return s
}

var ignoreVersion = cmpopts.IgnoreUnexported(pools.Setting{})

// TestPublishedSetting lists what becomes of a setting when a body is published.
func TestPublishedSetting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		current, known pools.Setting
		body           string
		force          bool
		want           pools.Setting
		replaces       bool
	}{
		"the first one":              {body: "one", want: settingOf(1, "one"), replaces: true},
		"another one":                {current: settingOf(1, "one"), body: "two", want: settingOf(2, "one", "two"), replaces: true},
		"the one in force":           {current: settingOf(2, "one", "two"), body: "two", want: settingOf(2, "one", "two")},
		"the one in force, by force": {current: settingOf(2, "one", "two"), body: "two", force: true, want: settingOf(2, "one", "two")},
		"a replaced one":             {current: settingOf(2, "one", "two"), body: "one", want: settingOf(2, "one", "two")},
		"a replaced one, by force":   {current: settingOf(2, "one", "two"), body: "one", force: true, want: settingOf(3, "two", "one"), replaces: true},
		"by one that knows a later one": {
			current: settingOf(1, "one"), known: settingOf(7, "six", "seven"), body: "new", want: settingOf(8, "six", "seven", "one", "new"), replaces: true,
		},
		"by one that knows an earlier one": {
			current: settingOf(3, "one", "three"), known: settingOf(1, "one"), body: "new", want: settingOf(4, "one", "three", "new"), replaces: true,
		},
		"one that only the caller knows as replaced": {
			known: settingOf(2, "one", "two"), body: "one", want: settingOf(3, "two", "one"), replaces: true,
		},
	} {
		got, replaces := pools.PublishedSetting(&c.current, []byte(c.body), c.force, &c.known)
		if diff := cmp.Diff(c.want, got, ignoreVersion); diff != "" || replaces != c.replaces {
			t.Errorf("%s: replaces %v, want %v (-want +got):\n%s", name, replaces, c.replaces, diff)
		}
	}
}

// TestRestoredSetting lists what becomes of a setting when a lost one is restored.
func TestRestoredSetting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		current, lost, want pools.Setting
		replaces            bool
	}{
		"into an empty store":         {lost: settingOf(3, "one", "three"), want: settingOf(3, "one", "three"), replaces: true},
		"after an earlier one":        {current: settingOf(1, "start"), lost: settingOf(3, "one", "three"), want: settingOf(3, "one", "start", "three"), replaces: true},
		"of the same generation":      {current: settingOf(3, "other"), lost: settingOf(3, "one", "three"), want: settingOf(3, "other")},
		"of an earlier generation":    {current: settingOf(3, "other"), lost: settingOf(2, "two"), want: settingOf(3, "other")},
		"what was replaced by itself": {current: settingOf(1, "three"), lost: settingOf(3, "one", "three"), want: settingOf(3, "one", "three"), replaces: true},
	} {
		got, replaces := pools.RestoredSetting(&c.current, &c.lost)
		if diff := cmp.Diff(c.want, got, ignoreVersion); diff != "" || replaces != c.replaces {
			t.Errorf("%s: replaces %v, want %v (-want +got):\n%s", name, replaces, c.replaces, diff)
		}
	}
}

// TestDigestsAreForgotten: only the latest digests are kept, so that what was replaced long ago can be published again.
func TestDigestsAreForgotten(t *testing.T) {
	t.Parallel()
	st := memstore.New(store.Timing{})
	publish := func(body string) pools.Setting {
		t.Helper()
		s, err := pools.PublishBody(t.Context(), st, body)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	publish("one")
	for i := range pools.MaxDigests {
		publish(fmt.Sprint("body ", i))
	}
	last := int64(1 + pools.MaxDigests)
	if s := publish("body 1"); s.Generation != last || len(s.Digests) != pools.MaxDigests {
		t.Errorf("generation %d with %d digests, want %d with %d", s.Generation, len(s.Digests), last, pools.MaxDigests)
	}
	if s := publish("one"); s.Generation != last+1 || string(s.Body) != "one" {
		t.Errorf("generation %d with %q, want %d with the first", s.Generation, s.Body, last+1)
	}
}

// TestSettingIsStored: what is in force after a change is what the store has then, with every field, and a setting that cannot be read is
// replaced.
func TestSettingIsStored(t *testing.T) {
	t.Parallel()
	st := memstore.New(store.Timing{})
	bad := map[string][]byte{"generation": []byte("3"), "body": []byte("one"), "digests": []byte("0a 0b")}
	key := store.ValueKey{Kind: store.SettingValue, Name: "pools"}
	if _, err := st.WriteValue(t.Context(), store.WriteValueParams{Key: key, Parts: bad}); err != nil {
		t.Fatal(err)
	}
	if s, err := pools.Stored(t.Context(), st); err != nil || s.Generation != 0 || s.Body != nil {
		t.Errorf("a setting whose digest is not that of its body: %+v, %v", s, err)
	}
	for _, change := range []func() (pools.Setting, error){
		func() (pools.Setting, error) { return pools.PublishBody(t.Context(), st, "one\x00binary") },
		func() (pools.Setting, error) { return pools.PublishBody(t.Context(), st, "two") },
		func() (pools.Setting, error) { return pools.PublishBody(t.Context(), st, "one\x00binary") },
		func() (pools.Setting, error) { return pools.Restore(t.Context(), st, settingOf(9, "eight", "nine")) },
		func() (pools.Setting, error) { return pools.Restore(t.Context(), st, settingOf(8, "eight")) },
	} {
		got, err := change()
		if err != nil {
			t.Fatal(err)
		}
		stored, err := pools.Stored(t.Context(), st)
		if diff := cmp.Diff(got, stored, ignoreVersion); err != nil || diff != "" || len(got.Digests) == 0 {
			t.Errorf("%v (-returned +stored):\n%s", err, diff)
		}
	}
}

// TestConcurrentPublications: of instances that publish at the same time each has its turn, and all agree which setting a generation is.
func TestConcurrentPublications(t *testing.T) {
	t.Parallel()
	const authors = 20
	st := memstore.New(store.Timing{})
	bodies := make([]string, authors+1) // by generation
	var mu sync.Mutex
	var publishing sync.WaitGroup
	for i := range authors {
		publishing.Go(func() {
			s, err := pools.PublishBody(t.Context(), st, fmt.Sprint("of ", i))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if bodies[s.Generation] != "" {
				t.Errorf("the generation %d is %q and %q", s.Generation, bodies[s.Generation], s.Body)
			}
			bodies[s.Generation] = string(s.Body)
		})
	}
	publishing.Wait()
	in, err := pools.Stored(t.Context(), st)
	if err != nil || in.Generation != authors || string(in.Body) != bodies[authors] || slices.Contains(bodies[1:], "") {
		t.Errorf("%q of the generation %d is in force, %v; published were %q", in.Body, in.Generation, err, bodies)
	}
}
