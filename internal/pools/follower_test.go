package pools_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/pools"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// maxPoll is after what time every instance has read the setting, without an announcement.
const maxPoll = 6500 * time.Millisecond

var timing = store.Timing{Presence: 15 * time.Second, ReservedTTL: 5 * time.Second, Attempt: 15 * time.Second, Job: 30 * time.Second, Retention: time.Minute}

// sharedStore is what several followers share.
type sharedStore interface {
	store.Values
	store.NodeReader
}

// faultyStore is a store whose settings can be emptied or be away, and whose announcements can be lost. Watches go on when it is emptied.
type faultyStore struct {
	store.NodeReader
	watched *memstore.Store // that announces

	mu       sync.Mutex
	values   store.Values
	isAway   bool
	isSilent bool // announcements are lost
	loads    int
}

func newFaulty() *faultyStore {
	watched := memstore.New(timing)
	return &faultyStore{NodeReader: watched, watched: watched, values: memstore.New(timing)}
}

var errAway = errors.New("the store is away")

func (f *faultyStore) current() (store.Values, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isAway {
		return nil, errAway
	}
	return f.values, nil
}

// set changes a fault.
func (f *faultyStore) set(fault *bool, value bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*fault = value
}

func (f *faultyStore) empty() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.values = memstore.New(timing)
}

// loaded returns how often the setting was read.
func (f *faultyStore) loaded() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loads
}

func (f *faultyStore) ReadValues(ctx context.Context, queries ...store.ValueQuery) ([]store.Value, error) {
	s, err := f.current()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.loads++
	f.mu.Unlock()
	return s.ReadValues(ctx, queries...)
}

func (f *faultyStore) WriteValue(ctx context.Context, p store.WriteValueParams) (bool, error) {
	s, err := f.current()
	if err != nil {
		return false, err
	}
	written, err := s.WriteValue(ctx, p)
	f.mu.Lock()
	defer f.mu.Unlock()
	if written && p.Announce && !f.isSilent {
		_, _ = f.watched.WriteValue(ctx, store.WriteValueParams{Key: p.Key, Announce: true})
	}
	return written, err
}

// instance is one instance that follows the settings.
type instance struct {
	*pools.Follower
	fleet  *fleet.Fleet
	passed atomic.Int64 // changes that the watch of the fleet got
}

// newInstance makes an instance that has not started.
func newInstance(values store.Values) *instance {
	f := fleet.New(time.Minute)
	log := slog.New(slog.DiscardHandler)
	return &instance{fleet: f, Follower: pools.New(pools.Options{
		Store: values, Fleet: f, Log: log,
		Events: journal.NewEvents("i", prometheus.NewCounter(prometheus.CounterOpts{Name: "dropped"}), log),
	})}
}

// start starts an instance with the pools of its file.
func start(t *testing.T, shared sharedStore, ids ...core.PoolID) *instance {
	t.Helper()
	i := newInstance(shared)
	if err := i.Start(t.Context(), file(ids...)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { i.Run(ctx) })
	running.Go(func() {
		_ = i.Watching(shared).Watch(ctx, func() {}, func(store.Change) { i.passed.Add(1) })
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return i
}

// file is the division of a file with some pools; without ids it has none.
func file(ids ...core.PoolID) *core.Pools {
	p := &core.Pools{}
	for _, id := range ids {
		p.Defined = append(p.Defined, core.PoolDefinition{ID: id, RequiredServices: []string{string(id)}})
	}
	return p
}

// want checks what is in force on instances, both what they say and how their fleets are divided.
func want(t *testing.T, generation int64, ids []core.PoolID, instances ...*instance) {
	t.Helper()
	for n, i := range instances {
		s := i.State()
		got := s.Division.IDs()
		if s.Generation != generation || !cmp.Equal(got, ids) || s.Problem != "" {
			t.Errorf("instance %d: generation %d with %v (%s), want %d with %v", n, s.Generation, got, s.Problem, generation, ids)
		}
		var divided []core.PoolID
		if d := i.fleet.Division(); d != nil {
			divided = d.IDs()
		}
		if len(ids) > 0 && !cmp.Equal(divided, ids) || len(ids) == 0 && divided != nil {
			t.Errorf("instance %d: the fleet is divided into %v, want %v", n, divided, ids)
		}
	}
}

// TestAllInstancesAgree: what one instance publishes is in force on all within a second, and an instance that starts with an older file, or with
// one without pools, does not undo it but says that its file differs.
func TestAllInstancesAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New(timing)
		a, b := start(t, shared, "x"), start(t, shared, "x")
		want(t, 1, []core.PoolID{"x"}, a, b)
		c := start(t, shared, "x", "y")
		time.Sleep(time.Second)
		want(t, 2, []core.PoolID{"x", "y"}, a, b, c)
		old, without := start(t, shared, "x"), start(t, shared)
		time.Sleep(time.Second)
		want(t, 2, []core.PoolID{"x", "y"}, a, b, c, old, without)
		for n, i := range []*instance{a, b, old, without} {
			if !i.State().FileDiffers {
				t.Errorf("instance %d does not say that its file differs", n)
			}
		}
		if c.State().FileDiffers {
			t.Error("the instance that published says that its file differs")
		}
		without.Publish(t.Context(), file()) // a reload ends the pools
		want(t, 3, []core.PoolID{}, without)
		a.Publish(t.Context(), file("x"))
		time.Sleep(time.Second)
		want(t, 4, []core.PoolID{"x"}, a, b, c, old, without)
	})
}

// TestStoreAwayOrEmptied: the last pools stay in force while the store is away, what was to be published meanwhile is published then, and a
// store that was emptied gets the pools in force again.
func TestStoreAwayOrEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFaulty()
		a, b := start(t, shared, "x"), start(t, shared, "x")
		shared.set(&shared.isAway, true)
		if _, err := b.Compare(t.Context(), file("y"), false); !errors.Is(err, errAway) {
			t.Errorf("a change while the store is away: %v", err)
		}
		b.Publish(t.Context(), file("y"))
		time.Sleep(time.Second)
		want(t, 1, []core.PoolID{"x"}, a, b)
		shared.set(&shared.isAway, false)
		time.Sleep(maxPoll)
		want(t, 2, []core.PoolID{"y"}, a, b)
		shared.empty()
		time.Sleep(maxPoll)
		want(t, 2, []core.PoolID{"y"}, a, b)
		want(t, 2, []core.PoolID{"y"}, start(t, shared))
		shared.empty()
		b.Publish(t.Context(), file("z")) // before any other instance has read the empty store
		time.Sleep(maxPoll)
		want(t, 3, []core.PoolID{"z"}, a, b)
	})
}

// TestStartWithoutStore: an instance does not start without knowing the pools, and waits some seconds for the store.
func TestStartWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFaulty()
		shared.set(&shared.isAway, true)
		if err := newInstance(shared).Start(t.Context(), file()); !errors.Is(err, errAway) {
			t.Errorf("%v, want the error of the store", err)
		}
		time.AfterFunc(3*time.Second, func() { shared.set(&shared.isAway, false) })
		i := start(t, shared, "x")
		want(t, 1, []core.PoolID{"x"}, i)
	})
}
