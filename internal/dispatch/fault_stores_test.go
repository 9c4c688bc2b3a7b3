package dispatch_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// faultyStore is a store whose operations can fail, lose their replies, or take long.
type faultyStore struct {
	store.Store
	mu        sync.Mutex
	fail      map[string]int // operations that fail this many more times
	loseReply map[string]int // operations whose reply is lost this many more times
	// stall is how long the process is suspended after the next call of an operation.
	stall map[string]time.Duration

	afterGet func() // called once, after a record was read

	onReserve func(store.ReserveParams, store.Verdict) // called after each reservation; nil: nothing is
	onCreate  func(store.CreateParams)                 // called before each record is created; nil: nothing is

	hangs atomic.Bool // rate limits are not answered
}

func newFaultyStore(st store.Store) *faultyStore {
	return &faultyStore{Store: st, fail: make(map[string]int), loseReply: make(map[string]int), stall: make(map[string]time.Duration)}
}

func (f *faultyStore) failNext(down bool, operation string, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if down {
		f.fail[operation] = times
	} else {
		f.loseReply[operation] = times
	}
}

// remaining returns how many more calls of an operation fail.
func (f *faultyStore) remaining(operation string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fail[operation]
}

func (f *faultyStore) consume(m map[string]int, operation string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m[operation] == 0 {
		return false
	}
	m[operation]--
	return true
}

func (f *faultyStore) stallAfter(operation string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stall[operation] = d
}

func (f *faultyStore) takeStall(operation string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.stall[operation]
	delete(f.stall, operation)
	return d
}

func call[T any](f *faultyStore, operation string, do func() (T, error)) (T, error) {
	var zero T
	if f.consume(f.fail, operation) {
		return zero, store.ErrDown
	}
	reply, err := do()
	time.Sleep(f.takeStall(operation))
	if f.consume(f.loseReply, operation) {
		return zero, store.ErrDown
	}
	return reply, err
}

func (f *faultyStore) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	return call(f, "reserve", func() (store.Reservation, error) {
		r, err := f.Store.Reserve(ctx, p)
		if err == nil && f.onReserve != nil {
			f.onReserve(p, r.Verdict)
		}
		return r, err
	})
}

func (f *faultyStore) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	created := false
	if f.onCreate != nil {
		f.onCreate(p)
	}
	job, err := call(f, "create", func() (job *core.Job, err error) {
		job, created, err = f.Store.Create(ctx, p)
		return job, err
	})
	return job, created && err == nil, err
}

func (f *faultyStore) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	applied, err := call(f, "apply", func() (store.Applied, error) { return f.Store.Apply(ctx, p) })
	if p.Event == core.EventMove {
		time.Sleep(f.takeStall("move"))
	}
	return applied, err
}

func (f *faultyStore) Release(ctx context.Context, p store.ReleaseParams) error {
	_, err := call(f, "release", func() (struct{}, error) { return struct{}{}, f.Store.Release(ctx, p) })
	return err
}

func (f *faultyStore) Commit(ctx context.Context, r core.LeaseRef) (bool, error) {
	return call(f, "commit", func() (bool, error) { return f.Store.Commit(ctx, r) })
}

func (f *faultyStore) Get(ctx context.Context, id core.JobID) (*core.Job, error) {
	job, err := call(f, "get", func() (*core.Job, error) { return f.Store.Get(ctx, id) })
	if then := f.afterGet; then != nil {
		f.afterGet = nil
		then()
	}
	return job, err
}

func (f *faultyStore) Allow(ctx context.Context, p store.AllowParams) (bool, error) {
	if f.hangs.Load() {
		<-ctx.Done()
		return false, store.ErrDown
	}
	return f.Store.Allow(ctx, p)
}

func (f *faultyStore) Mark(ctx context.Context, m store.Mark) error {
	_, err := call(f, "mark", func() (struct{}, error) { return struct{}{}, f.Store.Mark(ctx, m) })
	return err
}

// hookStore calls functions before or after certain operations.
type hookStore struct {
	store.Store
	beforeCreate, afterCreate, afterMove func()
}

func (m *hookStore) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	callOnce(&m.beforeCreate)
	job, created, err := m.Store.Create(ctx, p)
	callOnce(&m.afterCreate)
	return job, created, err
}

func (m *hookStore) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	a, err := m.Store.Apply(ctx, p)
	if p.Event == core.EventMove {
		callOnce(&m.afterMove)
	}
	return a, err
}

func callOnce(f *func()) {
	if do := *f; do != nil {
		*f = nil
		do()
	}
}

// hangingStore is a store that does not answer until the context ends.
type hangingStore struct {
	store.Store
	on atomic.Bool
}

func (h *hangingStore) block(ctx context.Context) error {
	if h.on.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (h *hangingStore) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	if err := h.block(ctx); err != nil {
		return store.Reservation{}, err
	}
	return h.Store.Reserve(ctx, p)
}

func (h *hangingStore) Get(ctx context.Context, id core.JobID) (*core.Job, error) {
	if err := h.block(ctx); err != nil {
		return nil, err
	}
	return h.Store.Get(ctx, id)
}

func (h *hangingStore) Nodes(ctx context.Context, ids ...core.NodeID) ([]store.NodeStatus, error) {
	if err := h.block(ctx); err != nil {
		return nil, err
	}
	return h.Store.Nodes(ctx, ids...)
}

func (h *hangingStore) Release(ctx context.Context, p store.ReleaseParams) error {
	if h.on.Load() {
		return store.ErrDown
	}
	return h.Store.Release(ctx, p)
}

// slowProbeStore is a store whose probes take time, and which counts the nodes that are probed.
type slowProbeStore struct {
	store.Store
	probed atomic.Int64 // nodes
}

func (s *slowProbeStore) Probe(ctx context.Context, nodes []core.NodeID, into []store.Occupancy) error {
	s.probed.Add(int64(len(nodes)))
	time.Sleep(10 * time.Millisecond)
	return s.Store.Probe(ctx, nodes, into)
}

// slowReserveStore is a store whose reservations take time, and which counts them.
type slowReserveStore struct {
	store.Store
	reserved atomic.Int64
}

func (s *slowReserveStore) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	s.reserved.Add(1)
	time.Sleep(10 * time.Millisecond)
	return s.Store.Reserve(ctx, p)
}

// lossyStore is a store that lost records or leases in a failover: it does not have them
// until they are written again.
type lossyStore struct {
	store.Store
	mu      sync.Mutex
	records map[core.JobID]bool
	leases  map[core.JobID]bool
}

func (f *lossyStore) lose(records, leases bool, id core.JobID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = map[core.JobID]bool{id: records}
	f.leases = map[core.JobID]bool{id: leases}
}

func (f *lossyStore) has(what *map[core.JobID]bool, id core.JobID, learn bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if learn {
		delete(*what, id)
	}
	return !(*what)[id]
}

func (f *lossyStore) Get(ctx context.Context, id core.JobID) (*core.Job, error) {
	if !f.has(&f.records, id, false) {
		return nil, store.ErrNoJob
	}
	return f.Store.Get(ctx, id)
}

func (f *lossyStore) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	if !f.has(&f.records, p.Job, false) {
		return store.Applied{Outcome: store.NoJob}, nil
	}
	return f.Store.Apply(ctx, p)
}

func (f *lossyStore) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	f.has(&f.records, p.ID, true)
	return f.Store.Create(ctx, p)
}

func (f *lossyStore) Commit(ctx context.Context, r core.LeaseRef) (bool, error) {
	if !f.has(&f.leases, r.Job, false) {
		return false, nil
	}
	return f.Store.Commit(ctx, r)
}

func (f *lossyStore) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	f.has(&f.leases, p.Lease.Job, true)
	return f.Store.Reserve(ctx, p)
}

// makeLossy makes the harness's store lossy.
func (h *harness) makeLossy() *lossyStore {
	f := &lossyStore{Store: h.store.Store}
	h.store.Store = f
	return f
}

// emptiableStore is a store that can lose all records. It keeps them in a store of their own.
type emptiableStore struct {
	store.Store
	records atomic.Pointer[memstore.Store]
}

func (s *emptiableStore) empty() { s.records.Store(memstore.New(timing)) }

func (s *emptiableStore) Get(ctx context.Context, id core.JobID) (*core.Job, error) {
	return s.records.Load().Get(ctx, id)
}

func (s *emptiableStore) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	return s.records.Load().Apply(ctx, p)
}

func (s *emptiableStore) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	return s.records.Load().Create(ctx, p)
}

// readTimesStore records when records were read.
type readTimesStore struct {
	dispatch.Store
	mu sync.Mutex
	at map[time.Time]int
}

func (s *readTimesStore) Get(ctx context.Context, id core.JobID) (*core.Job, error) {
	s.mu.Lock()
	s.at[time.Now()]++
	s.mu.Unlock()
	return s.Store.Get(ctx, id)
}

func (f *faultyStore) ViewQueue(ctx context.Context, pool core.PoolID, p fairqueue.ViewParams) (fairqueue.View, error) {
	return call(f, "view_queue", func() (fairqueue.View, error) { return f.Store.ViewQueue(ctx, pool, p) })
}

func (f *faultyStore) Offer(ctx context.Context, pool core.PoolID, n int, classes []string) (fairqueue.OfferResult, error) {
	return call(f, "offer", func() (fairqueue.OfferResult, error) { return f.Store.Offer(ctx, pool, n, classes) })
}
