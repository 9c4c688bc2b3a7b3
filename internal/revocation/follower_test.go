package revocation_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testStore is a store that can be away, and can lose its entries.
type testStore struct {
	t     *testing.T
	inner atomic.Pointer[memstore.Store]
	down  atomic.Bool
	reads atomic.Int64 // of the whole list

	failRead  atomic.Bool // the version can be read, the list cannot
	failDrain atomic.Bool // the record of a node cannot be changed

	beforeDrain atomic.Pointer[func()] // called once, before the record of a node is changed
}

var errDown = errors.New("down")

func newTestStore(t *testing.T) *testStore {
	s := &testStore{t: t}
	s.inner.Store(memstore.New(store.Timing{}))
	return s
}

// failOver replaces the store by one that has only the given entries.
func (s *testStore) failOver(entries ...store.Revocation) {
	s.t.Helper()
	next := memstore.New(store.Timing{})
	if _, err := next.PutRevocations(s.t.Context(), store.PutRevocationsParams{Entries: entries}); err != nil {
		s.t.Fatal(err)
	}
	s.inner.Store(next)
}

func (s *testStore) PutRevocations(ctx context.Context, p store.PutRevocationsParams) ([]store.Revocation, error) {
	if s.down.Load() {
		return nil, errDown
	}
	return s.inner.Load().PutRevocations(ctx, p)
}

func (s *testStore) Drain(ctx context.Context, p store.DrainParams) (*core.Node, error) {
	if s.down.Load() || s.failDrain.Load() {
		return nil, errDown
	}
	if do := s.beforeDrain.Swap(nil); do != nil {
		(*do)()
	}
	return s.inner.Load().Drain(ctx, p)
}

func (s *testStore) ReadRevocations(ctx context.Context, after time.Time, known *string) (store.RevocationPage, error) {
	if s.down.Load() {
		return store.RevocationPage{}, errDown
	}
	page, err := s.inner.Load().ReadRevocations(ctx, after, nil)
	if page.Version != "" { // of another store the same number is another version
		page.Version += fmt.Sprintf(" of %p", s.inner.Load())
	}
	switch {
	case known != nil && page.Version == *known:
		return store.RevocationPage{Version: page.Version}, err
	case s.failRead.Load():
		return store.RevocationPage{}, errDown
	case after.IsZero():
		s.reads.Add(1)
	}
	return page, err
}

// newFollower makes a follower that has read the list.
func newFollower(t *testing.T, s revocation.Store) *revocation.Follower {
	t.Helper()
	f := revocation.NewFollower(s, slog.New(slog.DiscardHandler))
	if err := f.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// follow runs a follower until the test ends.
func follow(t *testing.T, s revocation.Store, onChange func()) *revocation.Follower {
	t.Helper()
	f := revocation.NewFollower(s, slog.New(slog.DiscardHandler))
	if onChange != nil {
		f.OnChange(onChange)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return f
}

func mustAdd(t *testing.T, f *revocation.Follower, r store.Revocation) store.Revocation {
	t.Helper()
	added, err := f.Add(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

// keyOf is the caller with a key.
func keyOf(name string) *auth.Principal { return &auth.Principal{Key: name, Role: auth.Minter} }

// revokeKey is the revocation of a key until now.
func revokeKey(name string) store.Revocation {
	return store.Revocation{RevocationTarget: store.RevocationTarget{Kind: store.RevokedKey, Name: name}}
}

// TestEveryInstanceFollows: a revocation is in force where it was added when Add returns, and on every other instance within a second; so
// is that it was lifted. Subscribers are called after each change.
func TestEveryInstanceFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t)
		var changes atomic.Int64
		a, b := follow(t, s, nil), follow(t, s, func() { changes.Add(1) })
		synctest.Wait()
		for i := range int64(20) {
			time.Sleep(time.Duration(i) * 37 * time.Millisecond) // at any moment of the other's poll
			mustAdd(t, a, revokeKey("shop"))
			if !a.Revoked(keyOf("shop")) {
				t.Fatal("it is not in force where it was added")
			}
			time.Sleep(time.Second)
			if !b.Revoked(keyOf("shop")) || b.Revoked(keyOf("other")) || changes.Load() != 2*i+1 {
				t.Fatalf("after a second it is not in force elsewhere, or others are affected; %d changes", changes.Load())
			}
			if err := a.Lift(t.Context(), revokeKey("shop").RevocationTarget, "ops"); err != nil || a.Revoked(keyOf("shop")) {
				t.Fatalf("lifted: %v", err)
			}
			time.Sleep(time.Second)
			if b.Revoked(keyOf("shop")) || changes.Load() != 2*i+2 {
				t.Fatalf("after a second it is not lifted elsewhere; %d changes", changes.Load())
			}
		}
	})
}

// TestNotReadyBeforeTheFirstRead: an instance that has never read the list is not ready.
func TestNotReadyBeforeTheFirstRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t)
		mustAdd(t, newFollower(t, s), revokeKey("shop"))
		s.down.Store(true)
		f := follow(t, s, nil)
		time.Sleep(time.Minute)
		if f.Ready() {
			t.Fatal("it is ready, and the store was never read")
		}
		s.down.Store(false)
		time.Sleep(time.Second)
		if !f.Ready() || !f.Revoked(keyOf("shop")) {
			t.Errorf("ready: %v", f.Ready())
		}
	})
}

// TestLastListHoldsWhileTheStoreIsAway: without the store nothing can be revoked or lifted, and the last list stays in force.
func TestLastListHoldsWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t)
		var changes atomic.Int64
		f := follow(t, s, func() { changes.Add(1) })
		mustAdd(t, f, revokeKey("shop"))
		time.Sleep(time.Second)
		s.down.Store(true)
		if _, err := f.Add(t.Context(), revokeKey("other")); !errors.Is(err, errDown) {
			t.Errorf("add: %v", err)
		}
		if err := f.Lift(t.Context(), revokeKey("shop").RevocationTarget, "ops"); !errors.Is(err, errDown) {
			t.Errorf("lift: %v", err)
		}
		time.Sleep(time.Hour)
		if !f.Ready() || !f.Revoked(keyOf("shop")) || f.Revoked(keyOf("other")) || changes.Load() != 1 {
			t.Errorf("ready %v, entries %v, %d changes", f.Ready(), f.Entries(), changes.Load())
		}
	})
}

// TestLostEntriesArePutBack: what a failover has lost is written again by an instance that has it, in a second, and an instance that starts
// afterwards reads it. A lost entry that replaced another one is among that, whether it revoked or lifted.
func TestLostEntriesArePutBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t)
		a, b := follow(t, s, nil), follow(t, s, nil)
		lifted, again := mustAdd(t, a, revokeKey("lifted")), mustAdd(t, a, revokeKey("again"))
		kept := mustAdd(t, a, revokeKey("kept"))
		if err := a.Lift(t.Context(), lifted.RevocationTarget, "ops"); err != nil {
			t.Fatal(err)
		}
		if err := a.Lift(t.Context(), again.RevocationTarget, "ops"); err != nil {
			t.Fatal(err)
		}
		mustAdd(t, a, revokeKey("again"))
		mustAdd(t, a, revokeKey("lost"))
		time.Sleep(2 * time.Second) // until both have read them
		for _, survivors := range [][]store.Revocation{nil, {kept}, {lifted, again, kept}} {
			s.failOver(survivors...)
			time.Sleep(time.Second)
			for name, f := range map[string]*revocation.Follower{"the first": a, "the second": b, "a new one": newFollower(t, s)} {
				for key, want := range map[string]bool{"lifted": false, "again": true, "kept": true, "lost": true} {
					if got := f.Revoked(keyOf(key)); got != want {
						t.Errorf("with %d survivors %s has %q revoked: %v", len(survivors), name, key, got)
					}
				}
			}
		}
		time.Sleep(time.Second) // until each has read what another put back
		reads := s.reads.Load()
		time.Sleep(time.Minute)
		if n := s.reads.Load() - reads; n != 0 {
			t.Errorf("without a change the list is read %d times a minute", n)
		}
	})
}

// TestLossBeforeTheNextRead: an entry that is lost before its instance has read it once is put back, also when it is lost again at once, and
// when the read after that fails.
func TestLossBeforeTheNextRead(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	f := newFollower(t, s)
	mustAdd(t, f, revokeKey("shop"))
	for i := range 3 {
		s.failOver()
		if i == 2 {
			s.failRead.Store(true)
			if err := f.Read(t.Context()); !errors.Is(err, errDown) {
				t.Fatalf("read: %v", err)
			}
			s.failRead.Store(false)
		}
		if err := f.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !newFollower(t, s).Revoked(keyOf("shop")) {
			t.Fatalf("loss %d: it is not put back", i+1)
		}
	}
}

// TestEntriesExpire: the revocation of tokens is dropped when none of them can be alive, that of a key or a node never.
func TestEntriesExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t)
		f := follow(t, s, nil)
		kinds := []store.RevocationKind{store.RevokedKey, store.RevokedKID, store.RevokedTenant, store.RevokedSession, store.RevokedNode, store.RevokedLogin}
		for _, kind := range kinds {
			mustAdd(t, f, store.Revocation{RevocationTarget: store.RevocationTarget{Kind: kind, Name: "x"}})
		}
		mustAdd(t, f, store.Revocation{
			RevocationTarget: store.RevocationTarget{Kind: store.RevokedLogin, Name: "short"}, By: "shop", Until: time.Now().Add(auth.MaxTokenTTL - time.Hour),
		})
		if n := f.CountLogins("shop"); n != 1 {
			t.Errorf("%d logins of the key were ended", n)
		}
		time.Sleep(auth.MaxTokenTTL - time.Hour)
		if f.CountLogins("shop") != 1 {
			t.Error("a login that was ended is forgotten while it may be valid on an instance with another clock")
		}
		time.Sleep(time.Hour)
		if n := len(f.Entries()); n != len(kinds)+1 {
			t.Errorf("%d entries are left while tokens may be alive", n)
		}
		time.Sleep(time.Hour)
		mustAdd(t, f, revokeKey("y"))
		left := make(map[store.RevocationKind]int)
		for _, r := range f.Entries() {
			left[r.Kind]++
		}
		if f.CountLogins("shop") != 0 || left[store.RevokedLogin] != 1 || left[store.RevokedSession] != 0 || left[store.RevokedKID] != 0 || left[store.RevokedKey] != 2 || left[store.RevokedNode] != 1 || left[store.RevokedTenant] != 1 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestLongList: with many ended sessions a change is read alone, and what was lost is found nevertheless.
func TestLongList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t)
		a := newFollower(t, s)
		for i := range 1500 {
			mustAdd(t, a, store.Revocation{RevocationTarget: store.RevocationTarget{Kind: store.RevokedSession, Tenant: "acme", Name: fmt.Sprint(i)}})
		}
		first := mustAdd(t, a, revokeKey("replaced"))
		b := follow(t, s, nil)
		synctest.Wait()
		reads := s.reads.Load()
		for i := range 16 {
			mustAdd(t, a, revokeKey(fmt.Sprintf("k%d", i)))
			b.ReadSoon()
			time.Sleep(300 * time.Millisecond)
			if !b.Revoked(keyOf(fmt.Sprintf("k%d", i))) {
				t.Fatalf("change %d is not in force although it was announced", i)
			}
		}
		if n := s.reads.Load() - reads; n > 2 {
			t.Errorf("the whole list was read %d times in 5 s", n)
		}
		if err := a.Lift(t.Context(), first.RevocationTarget, "ops"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		page, err := s.ReadRevocations(t.Context(), time.Time{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Entries { // all survive, but one in its older version
			if page.Entries[i].RevocationTarget == first.RevocationTarget {
				page.Entries[i] = first
			}
		}
		s.failOver(page.Entries...)
		time.Sleep(6 * time.Second)
		if c := newFollower(t, s); c.Revoked(keyOf("replaced")) || b.Revoked(keyOf("replaced")) || len(c.Entries()) != 1517 { // with the entry for the logins of the key
			t.Errorf("the lift that was lost is not back; %d entries", len(c.Entries()))
		}
	})
}

// TestConcurrentChanges: changes here, there and in the store are all in force in the end.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t)
		followers := []*revocation.Follower{follow(t, s, nil), follow(t, s, nil), follow(t, s, nil)}
		var adding sync.WaitGroup
		for i, f := range followers {
			adding.Go(func() {
				for n := range 100 {
					mustAdd(t, f, revokeKey(fmt.Sprintf("k%d-%d", i, n)))
					time.Sleep(7 * time.Millisecond)
				}
			})
		}
		adding.Wait()
		time.Sleep(time.Second)
		for _, f := range followers {
			if n := len(f.Entries()); n != 300 {
				t.Errorf("%d entries, want 300", n)
			}
		}
	})
}

// TestRevocationIsNotWeakened: a later revocation of the same target with an earlier time does not make anything valid again.
func TestRevocationIsNotWeakened(t *testing.T) {
	t.Parallel()
	f := newFollower(t, newTestStore(t))
	now := time.Now()
	first := mustAdd(t, f, revokeKey("shop"))
	weaker := revokeKey("shop")
	weaker.Before = now.Add(-time.Hour)
	if second := mustAdd(t, f, weaker); !second.Since().Equal(first.Since()) {
		t.Errorf("it covers what was issued without knowledge of %v, and before that of %v", second.Since(), first.Since())
	}
	if p := keyOf("shop"); !f.Revoked(p) {
		t.Error("the key is valid again")
	}
	issued := &auth.Principal{Key: "shop", Role: auth.Minter, Issued: now.Add(-time.Minute)}
	if !f.Revoked(issued) {
		t.Error("what was issued between the two times is valid again")
	}
	if err := f.Lift(t.Context(), weaker.RevocationTarget, "ops"); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, f, weaker)
	if f.Revoked(issued) {
		t.Error("after it was lifted, an earlier time covers more than was asked for")
	}
}

// TestLiftKeepsWhatWasNotRevoked: the logins that a revocation ended stay ended when it is lifted, and those that it did not end stay valid.
func TestLiftKeepsWhatWasNotRevoked(t *testing.T) {
	t.Parallel()
	f := newFollower(t, newTestStore(t))
	alice := store.RevocationTarget{Kind: store.RevokedKey, Name: "alice"}
	mustAdd(t, f, store.Revocation{RevocationTarget: alice, Before: time.Now().Add(-time.Hour)})
	if err := f.Lift(t.Context(), alice, "ops"); err != nil {
		t.Fatal(err)
	}
	for age, want := range map[time.Duration]bool{time.Minute: false, 2 * time.Hour: true} {
		issued := time.Now().Add(-age)
		login := auth.Principal{
			Key: "alice", Role: auth.Operator, TokenID: "t1", Issued: issued, Issuer: &auth.Principal{Key: "alice", Role: auth.Operator, Issued: issued.Add(-time.Minute)},
		}
		if got := f.Revoked(&login); got != want {
			t.Errorf("a login that is %s old is ended: %v, want %v", age, got, want)
		}
	}
}
