package storetest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// valueBehaviours is the specification of Values.
var valueBehaviours = []behaviour{
	{"a value is read until it expires, or always without a TTL", testValueExpires},
	{"several values are read in the order of the queries", testSeveralValues},
	{"a value of a known version is read without its parts", testKnownVersion},
	{"parts are replaced one by one", testParts},
	{"a write with a lower fence replaces none with a higher one", testValueFence},
	{"of concurrent writes the one with the highest fence stays", testConcurrentFences},
	{"a write that replaces a version is refused if there is another", testReplacedVersion},
	{"of concurrent writes that replace a version one succeeds", testConcurrentVersions},
}

// The kinds that have a version, and those that have not.
var (
	versionedKinds   = []store.ValueKind{store.SnapshotValue, store.HistoryValue, store.SettingValue}
	unversionedKinds = []store.ValueKind{store.CountsValue, store.LastNodeValue}
)

func bodyOf(body string) map[string][]byte {
	return map[string][]byte{store.BodyPart: []byte(body)}
}

// write writes a value, and reports whether it was written.
func (h *Harness) write(t *testing.T, p store.WriteValueParams) bool {
	t.Helper()
	written, err := h.Store.WriteValue(t.Context(), p)
	if err != nil {
		t.Error(err)
	}
	return written
}

// read reads a value.
func (h *Harness) read(t *testing.T, key store.ValueKey) store.Value {
	t.Helper()
	v, err := store.ReadValue(t.Context(), h.Store, store.ValueQuery{Key: key})
	if err != nil {
		t.Error(err)
	}
	return v
}

// wantParts checks the parts of a value; none: there is no value.
func (h *Harness) wantParts(t *testing.T, key store.ValueKey, want map[string][]byte) {
	t.Helper()
	v := h.read(t, key)
	if diff := cmp.Diff(want, v.Parts); diff != "" {
		t.Errorf("parts of %v (-want +got):\n%s", key, diff)
	}
	if want == nil && v.Version != "" || v.Age < 0 {
		t.Errorf("%v: %+v", key, v)
	}
}

func testValueExpires(t *testing.T, h *Harness) {
	for _, kind := range append(versionedKinds, unversionedKinds...) {
		key := store.ValueKey{Kind: kind, Name: "a"}
		h.wantParts(t, key, nil)
		for _, body := range []string{"one", "two\x00binary"} {
			if !h.write(t, store.WriteValueParams{Key: key, Parts: bodyOf(body), TTL: h.Timing.Presence}) {
				t.Errorf("%v was not written", key)
			}
			h.wantParts(t, key, bodyOf(body))
		}
	}
	setting := store.ValueKey{Kind: store.SettingValue, Name: "stays"}
	h.write(t, store.WriteValueParams{Key: setting, Parts: bodyOf("for ever")})
	h.Wait(h.Timing.Presence + h.Slack)
	for _, kind := range append(versionedKinds, unversionedKinds...) {
		h.wantParts(t, store.ValueKey{Kind: kind, Name: "a"}, nil)
	}
	h.wantParts(t, setting, bodyOf("for ever"))
	if age := h.read(t, setting).Age; age < h.Timing.Presence {
		t.Errorf("its age is %v, want more than %v", age, h.Timing.Presence)
	}
}

func testSeveralValues(t *testing.T, h *Harness) {
	if got, err := h.Store.ReadValues(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("without queries: %v, %v", got, err)
	}
	var queries []store.ValueQuery
	for i := range 70 {
		key := store.ValueKey{Kind: store.CountsValue, Name: fmt.Sprint("i-", i)}
		if i%10 == 5 {
			key.Kind = store.SettingValue
		}
		h.write(t, store.WriteValueParams{Key: key, Parts: bodyOf(strconv.Itoa(i)), TTL: time.Minute})
		queries = append(queries, store.ValueQuery{Key: key},
			store.ValueQuery{Key: store.ValueKey{Kind: key.Kind, Name: fmt.Sprint("none-", i)}})
	}
	got, err := h.Store.ReadValues(t.Context(), queries...)
	if err != nil || len(got) != len(queries) {
		t.Fatalf("%d values of %d queries, %v", len(got), len(queries), err)
	}
	for i, v := range got {
		if want := strconv.Itoa(i / 2); i%2 == 0 && string(v.Parts[store.BodyPart]) != want || i%2 == 1 && v.Parts != nil {
			t.Errorf("the value of %v: %q", queries[i], v.Parts)
		}
	}
}

func testKnownVersion(t *testing.T, h *Harness) {
	for _, kind := range versionedKinds {
		p := store.WriteValueParams{Key: store.ValueKey{Kind: kind, Name: "a"}, Parts: bodyOf("one"), TTL: time.Minute, Fence: 3}
		h.write(t, p)
		first := h.read(t, p.Key)
		q := store.ValueQuery{Key: p.Key, Known: first.Version}
		got, err := store.ReadValue(t.Context(), h.Store, q)
		if err != nil || got.Version != first.Version || got.Version == "" || got.Parts != nil {
			t.Errorf("the known version of %v: %+v, %v; want %q without parts", p.Key, got, err, first.Version)
		}
		p.Parts = bodyOf("two")
		p.Fence++ // on a real clock the time may be the same
		h.write(t, p)
		got, err = store.ReadValue(t.Context(), h.Store, q)
		if err != nil || got.Version == first.Version || string(got.Parts[store.BodyPart]) != "two" {
			t.Errorf("another version of %v: %+v, %v; want the second", p.Key, got, err)
		}
	}
}

func testParts(t *testing.T, h *Harness) {
	type parts = map[string][]byte
	p := store.WriteValueParams{Key: store.ValueKey{Kind: store.HistoryValue}, Fence: 5, TTL: h.Timing.Presence}
	for _, c := range []struct {
		fence      int64
		parts      parts
		isAccepted bool
		want       parts
	}{
		{5, parts{"m1": []byte("a"), "m2": []byte("b")}, true, parts{"m1": []byte("a"), "m2": []byte("b")}},
		{5, parts{"m2": []byte("c"), "m3": []byte("")}, true, parts{"m1": []byte("a"), "m2": []byte("c"), "m3": []byte("")}},
		{4, parts{"m1": []byte("stale")}, false, parts{"m1": []byte("a"), "m2": []byte("c"), "m3": []byte("")}},
		{6, nil, true, parts{"m1": []byte("a"), "m2": []byte("c"), "m3": []byte("")}},
		{5, parts{"m1": []byte("a")}, false, parts{"m1": []byte("a"), "m2": []byte("c"), "m3": []byte("")}},
	} {
		p.Fence, p.Parts = c.fence, c.parts
		if written := h.write(t, p); written != c.isAccepted {
			t.Errorf("%q with the fence %d: %v", c.parts, c.fence, written)
		}
		h.wantParts(t, p.Key, c.want)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	h.wantParts(t, p.Key, nil)
	p.Fence, p.Parts = 1, parts{"m4": []byte("d")}
	if !h.write(t, p) {
		t.Error("a lower fence was refused after the value had expired")
	}
	h.wantParts(t, p.Key, p.Parts)
}

// writeFence writes a snapshot that names its fence.
func (h *Harness) writeFence(t *testing.T, fence int64) bool {
	t.Helper()
	key := store.ValueKey{Kind: store.SnapshotValue}
	return h.write(t, store.WriteValueParams{Key: key, Fence: fence, Parts: bodyOf(strconv.FormatInt(fence, 10)), TTL: time.Minute})
}

func testValueFence(t *testing.T, h *Harness) {
	const fence = 1_900_000_000_000 // as a lock has it: a time in milliseconds
	for _, c := range []struct {
		fence   int64
		written bool
	}{{fence, true}, {fence - 1, false}, {1, false}, {fence, true}, {fence + 1, true}, {fence, false}} {
		if written := h.writeFence(t, c.fence); written != c.written {
			t.Errorf("fence %d: written %v", c.fence-fence, written)
		}
	}
	h.wantParts(t, store.ValueKey{Kind: store.SnapshotValue}, bodyOf(strconv.FormatInt(fence+1, 10)))
}

func testConcurrentFences(t *testing.T, h *Harness) {
	const authors = 32
	var wg sync.WaitGroup
	for _, fence := range rand.Perm(authors) {
		wg.Go(func() {
			for range 4 {
				h.writeFence(t, int64(fence)+1)
			}
		})
	}
	wg.Wait()
	h.wantParts(t, store.ValueKey{Kind: store.SnapshotValue}, bodyOf(strconv.Itoa(authors)))
}

// settingAt is a setting as package pools writes it: parts of it make its version.
func settingAt(generation int, replaces *string) store.WriteValueParams {
	text := strconv.Itoa(generation)
	return store.WriteValueParams{
		Key: store.ValueKey{Kind: store.SettingValue, Name: "pools"}, Replaces: replaces,
		Parts: map[string][]byte{"generation": []byte(text), "digest": []byte("digest " + text), store.BodyPart: []byte("body " + text)},
	}
}

func testReplacedVersion(t *testing.T, h *Harness) {
	none := ""
	first := settingAt(1, &none)
	if !h.write(t, first) {
		t.Error("the first version was refused")
	}
	one := h.read(t, first.Key).Version
	second := settingAt(2, &one)
	if !h.write(t, second) {
		t.Error("the second version was refused")
	}
	for _, stale := range []*string{&none, &one} {
		if h.write(t, settingAt(3, stale)) {
			t.Errorf("a write that replaces %q succeeded", *stale)
		}
	}
	if !h.write(t, second) {
		t.Error("a repeated write was refused")
	}
	h.wantParts(t, first.Key, second.Parts)
	if !h.write(t, settingAt(4, nil)) {
		t.Error("a write that replaces any version was refused")
	}
}

func testConcurrentVersions(t *testing.T, h *Harness) {
	key := settingAt(0, nil).Key
	for round := range 5 {
		version := h.read(t, key).Version
		var written atomic.Int64
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				if h.write(t, settingAt(100*round+i, &version)) {
					written.Add(1)
				}
			})
		}
		wg.Wait()
		if n := written.Load(); n != 1 {
			t.Errorf("%d of 16 writes that replace %q succeeded, want one", n, version)
		}
	}
}
