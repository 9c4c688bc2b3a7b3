package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// watchBehaviours is the specification of NodeReader.Watch.
var watchBehaviours = []behaviour{
	{"every change of a node comes, in order", testWatchChanges},
	{"every mark comes", testWatchMarks},
	{"every removal comes", testWatchRemovals},
	{"every revocation that is added is announced", testWatchRevocations},
	{"every setting that is published, restored or announced is announced", testWatchSettings},
	{"a watch returns an error when its context ends", testWatchEnds},
}

func testWatchChanges(t *testing.T, h *Harness) {
	changes := h.watch(t)
	n := h.register(t, "node-a", 2)
	degraded := h.heartbeat(t, n, heartbeat{seq: 1, health: core.HealthDegraded}).Node
	h.heartbeat(t, degraded, heartbeat{seq: 2, health: core.HealthDegraded}) // no change
	drained, err := h.Store.Drain(t.Context(), store.DrainParams{Node: "node-a", Drained: true})
	if err != nil {
		t.Fatal(err)
	}
	// Changes that follow closely may come as one, and repeated writes may publish one twice; but never an older one after a newer,
	// and the last one always comes.
	last := core.Version(0)
	for last < drained.Version {
		now := (<-changes).Now.Node
		if now.Version < last || now.Version > drained.Version {
			t.Fatalf("version %d comes after %d; the last is %d", now.Version, last, drained.Version)
		}
		last = now.Version
	}
}

func testWatchMarks(t *testing.T, h *Harness) {
	changes := h.watch(t)
	n := h.register(t, "node-a", 2)
	want := store.Mark{Node: "node-a", Service: "asr", Version: "2", Epoch: n.Epoch, NodeVersion: n.Version, For: time.Minute,
		Reason: core.UnavailableInstalling}
	h.mark(t, want)
	for c := range changes {
		if c.Mark != nil {
			if diff := cmp.Diff(want, *c.Mark); diff != "" || c.Node != "node-a" {
				t.Errorf("the mark of %s (-want +got):\n%s", c.Node, diff)
			}
			break
		}
	}
}

func testWatchRemovals(t *testing.T, h *Harness) {
	changes := h.watch(t)
	h.register(t, "node-a", 2)
	if _, err := h.Store.Remove(t.Context(), store.RemoveParams{Node: "node-a"}); err != nil {
		t.Fatal(err)
	}
	for c := range changes {
		if c.Removed && c.Node == "node-a" {
			break
		}
	}
}

func testWatchRevocations(t *testing.T, h *Harness) {
	changes := h.watch(t)
	revoked := store.Revocation{RevocationTarget: store.RevocationTarget{Kind: store.RevokedKID, Name: "key-1"}, Now: true}
	if _, err := h.Store.PutRevocations(t.Context(), store.PutRevocationsParams{Entries: []store.Revocation{revoked}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(store.Change{Revoked: true}, <-changes); diff != "" {
		t.Errorf("change (-want +got):\n%s", diff)
	}
}

func testWatchSettings(t *testing.T, h *Harness) {
	changes := h.watch(t)
	last := ""
	wantNext := func(name string) {
		t.Helper()
		// A repeated call announces it twice.
		c := <-changes
		for c.Setting == last && h.Repeats {
			c = <-changes
		}
		last = name
		if diff := cmp.Diff(store.Change{Setting: name}, c); diff != "" {
			t.Errorf("change (-want +got):\n%s", diff)
		}
	}
	setting := func(name string) store.ValueKey { return store.ValueKey{Kind: store.SettingValue, Name: name} }
	none, other := "", "another version"
	h.write(t, store.WriteValueParams{Key: setting("written"), Parts: bodyOf("one"), Replaces: &none, Announce: true})
	wantNext("written")
	h.write(t, store.WriteValueParams{Key: setting("silent"), Parts: bodyOf("one")})
	h.write(t, store.WriteValueParams{Key: setting("refused"), Parts: bodyOf("one"), Replaces: &other, Announce: true})
	h.write(t, store.WriteValueParams{Key: setting("announced"), Announce: true})
	wantNext("announced")
}

func testWatchEnds(t *testing.T, h *Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	ready := make(chan struct{})
	go func() { done <- h.Store.Watch(ctx, func() { close(ready) }, func(store.Change) {}) }()
	<-ready
	cancel()
	if err := <-done; err == nil {
		t.Error("a watch that was ended returned no error")
	}
}

// watch watches the fleet until the test ends and returns the changes as they come.
func (h *Harness) watch(t *testing.T) <-chan store.Change {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan store.Change, 1024)
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Store.Watch(ctx, func() { close(ready) }, func(c store.Change) { changes <- c })
	}()
	<-ready
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return changes
}
