package stats

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var discardLog = slog.New(slog.DiscardHandler)

var errDown = errors.New("the store does not answer")

// faultyStore is a store that can be down, and that counts the snapshots that were saved.
type faultyStore struct {
	store.Store
	down  atomic.Bool
	saved atomic.Int64
	held  atomic.Pointer[core.InstanceID] // its locks are not released
}

// holdLock makes the death of an instance leave its locks behind; nil: of none.
func (s *faultyStore) holdLock(of *fakeInstance) {
	if of == nil {
		s.held.Store(nil)
	} else {
		s.held.Store(&of.id)
	}
}

func (s *faultyStore) Unlock(ctx context.Context, p store.LockParams) error {
	if held := s.held.Load(); held != nil && string(*held) == p.Holder {
		return errDown
	}
	return s.Store.Unlock(ctx, p)
}

func newStore() *faultyStore {
	return &faultyStore{Store: memstore.New(store.Timing{Presence: 15 * time.Second, Job: time.Minute})}
}

// asksForSnapshot reports whether one of the queries is for the snapshot.
func asksForSnapshot(queries []store.ValueQuery) bool {
	return slices.ContainsFunc(queries, func(q store.ValueQuery) bool { return q.Key == snapshotKey })
}

func (s *faultyStore) ReadValues(ctx context.Context, queries ...store.ValueQuery) ([]store.Value, error) {
	if asksForSnapshot(queries) && s.down.Load() {
		return nil, errDown
	}
	return s.Store.ReadValues(ctx, queries...)
}

func (s *faultyStore) WriteValue(ctx context.Context, p store.WriteValueParams) (bool, error) {
	if p.Key != snapshotKey {
		return s.Store.WriteValue(ctx, p)
	}
	if s.down.Load() {
		return false, errDown
	}
	saved, err := s.Store.WriteValue(ctx, p)
	if saved {
		s.saved.Add(1)
	}
	return saved, err
}

func (s *faultyStore) Lock(ctx context.Context, p store.LockParams) (store.Lock, error) {
	if s.down.Load() {
		return store.Lock{}, errDown
	}
	return s.Store.Lock(ctx, p)
}

// fakeInstance has the parts of one instance that make statistics.
type fakeInstance struct {
	id        core.InstanceID
	counter   *Counter
	generator *Generator
	leader    *Leader
	reader    *Reader
}

// emptyCatalog is that of an instance without a ModelHub.
var emptyCatalog, _ = health.NewCatalog(health.CatalogOptions{})

// newInstance makes an instance among others.
func newInstance(id core.InstanceID, st store.Store, all ...core.InstanceID) *fakeInstance {
	i := &fakeInstance{id: id, counter: NewCounter(id, st, 5*time.Second, discardLog)}
	i.generator = &Generator{
		Catalog: emptyCatalog, Instance: id, Stats: st, Fleet: fleet.New(15 * time.Second), Interval: 5 * time.Second, TTL: 45 * time.Second, Log: discardLog,
		Peers: func(context.Context) ([]bus.Peer, error) {
			peers := make([]bus.Peer, len(all))
			for k := range all {
				peers[k] = bus.Peer{Instance: store.Instance{ID: all[k], Present: true}}
			}
			return peers, nil
		},
		DeadLetters: func() int { return 3 },
	}
	i.leader = &Leader{Locks: st, Name: "stats", Instance: id, Log: discardLog}
	faulty, canFail := st.(*faultyStore)
	reachable := func() bool { return !canFail || !faulty.down.Load() }
	i.reader = NewReader(st, i.generator, "memory", reachable, discardLog)
	return i
}

// run runs the parts of the instance until the function that it returns is called.
func (i *fakeInstance) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, 3)
	for _, part := range []func(){
		func() { i.counter.Run(ctx) },
		func() { i.leader.Run(ctx, i.generator.Lead) },
		func() { i.reader.Run(ctx) },
	} {
		go func() {
			part()
			ended <- struct{}{}
		}()
	}
	return func() {
		cancel()
		for range cap(ended) {
			<-ended
		}
	}
}

// endJob makes a job that has ended.
func endJob(d core.Direction, state core.State, reason core.Reason) *core.Job {
	return &core.Job{ID: "job-1", Spec: core.Spec{Direction: d}, State: state, Reason: reason}
}

var enZH = core.Direction{Src: "en", Tgt: "zh"}

var zhEN = []core.Lang{"en", "zh"}
