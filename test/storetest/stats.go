package storetest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// statsBehaviours is the specification of Stats.
var statsBehaviours = []behaviour{
	{"counts replace those before, until they expire", testCounts},
	{"a snapshot is loaded until it expires", testSnapshot},
	{"a snapshot with a lower fence replaces none with a higher one", testSnapshotFence},
	{"of concurrent snapshots the one with the highest fence stays", testConcurrentSnapshots},
	{"parts of the history are replaced one by one, unless the fence is lower", testHistory},
}

func testCounts(t *testing.T, h *Harness) {
	ttl := h.Timing.Presence
	save := func(id core.InstanceID, body string) {
		t.Helper()
		if err := h.Store.SaveCounts(t.Context(), store.CountsParams{ID: id, Body: []byte(body), TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	load := func(want ...[]byte) {
		t.Helper()
		got, err := h.Store.Counts(t.Context(), "i-1", "i-none", "i-2")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	load(nil, nil, nil)
	save("i-1", "one")
	save("i-2", "two\x00binary")
	save("i-1", "one again")
	load([]byte("one again"), nil, []byte("two\x00binary"))
	h.Wait(h.Timing.Presence + h.Slack)
	save("i-2", "three")
	load(nil, nil, []byte("three"))
	if got, err := h.Store.Counts(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("the counts of nobody: %q, %v", got, err)
	}
	many := make([]core.InstanceID, 70)
	ttl = time.Minute // none expires before the last is saved
	for i := range many {
		many[i] = core.InstanceID(fmt.Sprint("m-", i))
		save(many[i], fmt.Sprint(i))
	}
	got, err := h.Store.Counts(t.Context(), many...)
	for i := range got {
		if string(got[i]) != strconv.Itoa(i) {
			t.Errorf("the counts of %s: %q", many[i], got[i])
		}
	}
	if err != nil || len(got) != len(many) {
		t.Errorf("%d counts of %d instances, %v", len(got), len(many), err)
	}
}

// saveSnapshot publishes a snapshot that names its fence.
func saveSnapshot(t *testing.T, h *Harness, fence int64) bool {
	t.Helper()
	p := store.SnapshotParams{Fence: fence, Body: strconv.AppendInt(nil, fence, 10), TTL: h.Timing.Presence}
	saved, err := h.Store.SaveSnapshot(t.Context(), p)
	if err != nil {
		t.Error(err)
	}
	return saved
}

// loadSnapshot returns the fence of the current snapshot; 0: there is none.
func loadSnapshot(t *testing.T, h *Harness) int64 {
	t.Helper()
	got, err := h.Store.LoadSnapshot(t.Context(), store.SnapshotID{})
	if err != nil {
		t.Fatal(err)
	}
	if known, err := h.Store.LoadSnapshot(t.Context(), got.SnapshotID); err != nil || known.SnapshotID != got.SnapshotID ||
		known.Body != nil {
		t.Errorf("the snapshot that is known: %+v, %v; want %+v without a body", known, err, got.SnapshotID)
	}
	if got.Fence != 0 && string(got.Body) != strconv.FormatInt(got.Fence, 10) || got.Age < 0 || got.Age > h.Timing.Presence {
		t.Errorf("the snapshot is %q with the fence %d, %v old", got.Body, got.Fence, got.Age)
	}
	return got.Fence
}

func testSnapshot(t *testing.T, h *Harness) {
	if got := loadSnapshot(t, h); got != 0 {
		t.Errorf("before it was saved: %d", got)
	}
	for range 2 {
		if !saveSnapshot(t, h, 7) {
			t.Error("the author's own snapshot was not replaced")
		}
	}
	if got := loadSnapshot(t, h); got != 7 {
		t.Errorf("loaded %d", got)
	}
	h.Wait(h.Timing.Presence + h.Slack)
	if got := loadSnapshot(t, h); got != 0 {
		t.Errorf("after it expired: %d", got)
	}
}

func testSnapshotFence(t *testing.T, h *Harness) {
	const fence = 1_900_000_000_000 // as a lock has it: a time in milliseconds
	for _, c := range []struct {
		fence int64
		saved bool
	}{{fence, true}, {fence - 1, false}, {1, false}, {fence, true}, {fence + 1, true}, {fence, false}} {
		if saved := saveSnapshot(t, h, c.fence); saved != c.saved {
			t.Errorf("fence %d: saved %v", c.fence-fence, saved)
		}
	}
	if got := loadSnapshot(t, h); got != fence+1 {
		t.Errorf("loaded %d", got-fence)
	}
}

func testConcurrentSnapshots(t *testing.T, h *Harness) {
	const authors = 32
	var wg sync.WaitGroup
	for _, fence := range rand.Perm(authors) {
		wg.Go(func() {
			for range 4 {
				saveSnapshot(t, h, int64(fence)+1)
			}
		})
	}
	wg.Wait()
	if got := loadSnapshot(t, h); got != authors {
		t.Errorf("the fence of the last snapshot is %d, want %d", got, authors)
	}
}

func testHistory(t *testing.T, h *Harness) {
	type parts = map[string][]byte
	save := func(fence int64, p parts) bool {
		t.Helper()
		saved, err := h.Store.SaveHistory(t.Context(), store.HistoryParams{Fence: fence, Parts: p, TTL: h.Timing.Presence})
		if err != nil {
			t.Fatal(err)
		}
		return saved
	}
	load := func(want parts) {
		t.Helper()
		got, err := h.Store.LoadHistory(t.Context())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	load(parts{})
	if !save(5, parts{"m1": []byte("a"), "m2": []byte("b")}) || !save(5, parts{"m2": []byte("c"), "fence": []byte("9")}) {
		t.Error("a part was not written")
	}
	if save(4, parts{"m1": []byte("stale")}) {
		t.Error("a stale author wrote a part")
	}
	want := parts{"m1": []byte("a"), "m2": []byte("c"), "fence": []byte("9")}
	load(want)
	if !save(6, nil) {
		t.Error("a later author was refused")
	}
	load(want)
	h.Wait(h.Timing.Presence + h.Slack)
	load(parts{})
	if !save(1, parts{"m3": []byte("d")}) {
		t.Error("a part was not written after the history had expired")
	}
	load(parts{"m3": []byte("d")})
}
