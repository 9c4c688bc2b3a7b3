package pools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/events"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/pools"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

var timing = store.Timing{Presence: 15 * time.Second, ReservedTTL: 5 * time.Second, Attempt: 15 * time.Second, Job: 30 * time.Second, Retention: time.Minute}

// faultySettings are settings of a store that can be emptied, or be away.
type faultySettings struct {
	mu       sync.Mutex
	settings store.Settings
	isAway   bool
}

func newFaulty() *faultySettings { return &faultySettings{settings: memstore.New(timing)} }

var errAway = errors.New("the store is away")

func (f *faultySettings) current() (store.Settings, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isAway {
		return nil, errAway
	}
	return f.settings, nil
}

// set makes the store away, or not.
func (f *faultySettings) set(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isAway = away
}

func (f *faultySettings) empty() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settings = memstore.New(timing)
}

func (f *faultySettings) LoadSetting(ctx context.Context, name string, known store.Setting) (store.Setting, error) {
	s, err := f.current()
	if err != nil {
		return store.Setting{}, err
	}
	return s.LoadSetting(ctx, name, known)
}

func (f *faultySettings) RestoreSetting(ctx context.Context, name string, lost store.Setting) (store.Setting, error) {
	s, err := f.current()
	if err != nil {
		return store.Setting{}, err
	}
	return s.RestoreSetting(ctx, name, lost)
}

func (f *faultySettings) PublishSetting(ctx context.Context, p store.SettingParams) (store.Setting, error) {
	s, err := f.current()
	if err != nil {
		return store.Setting{}, err
	}
	return s.PublishSetting(ctx, p)
}

// instance is one instance that follows the settings.
type instance struct {
	*pools.Follower
	fleet *fleet.Fleet
}

// start starts an instance with the pools of its file.
func start(t *testing.T, settings store.Settings, ids ...core.PoolID) *instance {
	t.Helper()
	f := fleet.New(time.Minute)
	log := slog.New(slog.DiscardHandler)
	i := &instance{fleet: f, Follower: pools.New(pools.Options{
		Store: settings, Fleet: f, Log: log,
		Events: events.NewRecorder("i", prometheus.NewCounter(prometheus.CounterOpts{Name: "dropped"}), log),
	})}
	if err := i.Start(t.Context(), file(ids...)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
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
		shared.set(true)
		if _, err := b.Changes(t.Context(), file("y")); !errors.Is(err, errAway) {
			t.Errorf("a change while the store is away: %v", err)
		}
		b.Publish(t.Context(), file("y"))
		time.Sleep(time.Second)
		want(t, 1, []core.PoolID{"x"}, a, b)
		shared.set(false)
		time.Sleep(2 * time.Second)
		want(t, 2, []core.PoolID{"y"}, a, b)
		shared.empty()
		time.Sleep(2 * time.Second)
		want(t, 2, []core.PoolID{"y"}, a, b)
		want(t, 2, []core.PoolID{"y"}, start(t, shared))
		shared.empty()
		b.Publish(t.Context(), file("z")) // before any other instance has read the empty store
		time.Sleep(2 * time.Second)
		want(t, 3, []core.PoolID{"z"}, a, b)
	})
}

// TestPoolsOfANewerVersion: an instance that does not understand the pools in force keeps those before, and says so.
func TestPoolsOfANewerVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New(timing)
		a := start(t, shared, "x")
		bad, err := json.Marshal(map[string]any{"pools": []any{}, "later": 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := shared.PublishSetting(t.Context(), store.SettingParams{Name: "pools", Body: bad}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s := a.State(); s.Problem == "" || s.Generation != 2 || !cmp.Equal(s.Division, file("x")) {
			t.Errorf("%+v, want the pools before and a problem", s)
		}
		time.Sleep(time.Second)
		if a.State().Problem == "" {
			t.Error("the problem was forgotten")
		}
	})
}

// TestStartWithoutStore: an instance does not start without knowing the pools, and waits some seconds for the store.
func TestStartWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFaulty()
		shared.set(true)
		f := pools.New(pools.Options{Store: shared, Fleet: fleet.New(time.Minute), Log: slog.New(slog.DiscardHandler)})
		if err := f.Start(t.Context(), file()); !errors.Is(err, errAway) {
			t.Errorf("%v, want the error of the store", err)
		}
		time.AfterFunc(3*time.Second, func() { shared.set(false) })
		i := start(t, shared, "x")
		want(t, 1, []core.PoolID{"x"}, i)
	})
}

// TestChanges: a reload says whether it changes anything.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := start(t, memstore.New(timing), "x")
		for n, c := range []struct {
			division *core.Pools
			want     bool
		}{{file("x"), false}, {file("y"), true}, {file(), true}} {
			if got, err := i.Changes(t.Context(), c.division); err != nil || got != c.want {
				t.Errorf("%d: %t, %v, want %t", n, got, err, c.want)
			}
		}
		if fmt.Sprint(i.State().Division.IDs()) != "[x]" {
			t.Error("asking for changes has changed something")
		}
	})
}
