package revocation_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestDrainsAreRemembered: an instance that has read a drain puts it back when the store has lost it, and remembers that the node was
// resumed. A drain is no revocation.
func TestDrainsAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t)
		var changes atomic.Int64
		here, there := follow(t, s, func() { changes.Add(1) }), follow(t, s, nil)
		if err := here.RecordDrain(t.Context(), "node-1", true); err != nil {
			t.Fatal(err)
		}
		if changes.Load() != 0 || here.Any() {
			t.Errorf("%d changes of the revocations, any %v", changes.Load(), here.Any())
		}
		if !here.NodeDrained("node-1") || here.NodeDrained("node-2") || here.NodeNameRevoked("node-1") || len(here.Entries()) != 0 {
			t.Errorf("node-1 %v, node-2 %v, revoked %v, entries %v", here.NodeDrained("node-1"), here.NodeDrained("node-2"), here.NodeNameRevoked("node-1"), here.Entries())
		}
		time.Sleep(2 * time.Second)
		s.failOver()
		time.Sleep(2 * time.Second)
		if !there.NodeDrained("node-1") || !newFollower(t, s).NodeDrained("node-1") {
			t.Error("the drain is forgotten after a loss")
		}
		if err := there.RecordDrain(t.Context(), "node-1", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		s.failOver()
		time.Sleep(2 * time.Second)
		if here.NodeDrained("node-1") || newFollower(t, s).NodeDrained("node-1") {
			t.Error("a drain that was ended is back after a loss")
		}
		s.down.Store(true)
		if err := here.RecordDrain(t.Context(), "node-1", true); err == nil || here.NodeDrained("node-1") {
			t.Errorf("while the store is away: %v, drained %v", err, here.NodeDrained("node-1"))
		}
	})
}

// TestDrainsAreRestored: a failover to a replica that is behind loses the changes of the nodes' records with the entries. Both are put back.
func TestDrainsAreRestored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t)
		f := follow(t, s, nil)
		register := func(id core.NodeID, drained bool) {
			t.Helper()
			if _, err := s.inner.Load().Register(t.Context(), store.RegisterParams{Node: core.Node{ID: id}, Drained: drained}); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			node    core.NodeID
			drained bool
		}{{"drained", true}, {"resumed", true}, {"resumed", false}, {"gone", true}} {
			if err := f.RecordDrain(t.Context(), c.node, c.drained); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		s.failOver()
		register("drained", false)
		register("resumed", true)
		register("other", true)
		time.Sleep(2 * time.Second)
		found, err := s.inner.Load().Nodes(t.Context(), "drained", "resumed", "other")
		if err != nil {
			t.Fatal(err)
		}
		var drained []core.NodeID
		for _, st := range found {
			if st.Node.Drained {
				drained = append(drained, st.Node.ID)
			}
		}
		slices.Sort(drained)
		if want := []core.NodeID{"drained", "other"}; !slices.Equal(drained, want) {
			t.Errorf("drained are %v, want %v", drained, want)
		}
		if !f.NodeDrained("gone") || !newFollower(t, s).NodeDrained("gone") {
			t.Error("the drain of a node without a record is forgotten")
		}
	})
}

// TestRestoredDrainsYieldToOperators: what an operator does while an instance restores what the store has lost stands.
func TestRestoredDrainsYieldToOperators(t *testing.T) {
	t.Parallel()
	for _, drained := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newTestStore(t)
			f := follow(t, s, nil)
			for _, d := range []bool{drained, !drained} {
				if err := f.RecordDrain(t.Context(), "node-1", d); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * time.Second)
			s.failOver()
			st := s.inner.Load()
			if _, err := st.Register(t.Context(), store.RegisterParams{Node: core.Node{ID: "node-1"}}); err != nil {
				t.Fatal(err)
			}
			operator := func() {
				_, err := st.Drain(t.Context(), store.DrainParams{Node: "node-1", Drained: drained})
				if err = errors.Join(err, newFollower(t, s).RecordDrain(t.Context(), "node-1", drained)); err != nil {
					t.Error(err)
				}
			}
			s.beforeDrain.Store(&operator)
			time.Sleep(2 * time.Second)
			n, err := store.ReadNode(t.Context(), st, "node-1")
			if err != nil || n.Node.Drained != drained || f.NodeDrained("node-1") != drained || s.beforeDrain.Load() != nil {
				t.Errorf("%v; the record says drained %v, the list %v; want %v", err, n.Node.Drained, f.NodeDrained("node-1"), drained)
			}
		})
	}
}

// TestRevocationsAreRestoredFirst: revocations are put back although the record of a drained node cannot be changed.
func TestRevocationsAreRestoredFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t)
		f := follow(t, s, nil)
		if err := f.RecordDrain(t.Context(), "node-1", true); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Add(t.Context(), revoke(store.RevokedNode, "", "node-2")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		s.failOver()
		st := s.inner.Load()
		if _, err := st.Register(t.Context(), store.RegisterParams{Node: core.Node{ID: "node-1"}}); err != nil {
			t.Fatal(err)
		}
		s.failDrain.Store(true)
		time.Sleep(2 * time.Second)
		if page, err := st.ReadRevocations(t.Context(), time.Time{}, nil); err != nil || page.Count != 2 {
			t.Errorf("%v, %d entries are back, want 2", err, page.Count)
		}
		s.failDrain.Store(false)
		time.Sleep(2 * time.Second)
		if n, err := store.ReadNode(t.Context(), st, "node-1"); err != nil || !n.Node.Drained {
			t.Errorf("%v; the node is not drained", err)
		}
	})
}

// TestRevocationsHoldWhileDrainsChange: no check finds that nothing is revoked while drains, or the revocation itself, are added again.
func TestRevocationsHoldWhileDrainsChange(t *testing.T) {
	t.Parallel()
	f := newFollower(t, newTestStore(t))
	caller := auth.Principal{Key: "ops", Role: auth.Operator}
	if _, err := f.Add(t.Context(), revoke(store.RevokedKey, "", caller.Key)); err != nil {
		t.Fatal(err)
	}
	changed := make(chan error)
	go func() {
		var err error
		for range 300 {
			_, added := f.Add(t.Context(), revoke(store.RevokedKey, "", caller.Key))
			err = errors.Join(err, f.RecordDrain(t.Context(), "node-1", true), f.RecordDrain(t.Context(), "node-1", false), added)
		}
		changed <- err
	}()
	for checks, escaped := 0, 0; ; checks++ {
		if !f.Revoked(&caller) {
			escaped++
		}
		select {
		case err := <-changed:
			if err != nil || escaped > 0 {
				t.Errorf("%v; %d of %d checks found no revocation", err, escaped, checks)
			}
			return
		default:
		}
	}
}
