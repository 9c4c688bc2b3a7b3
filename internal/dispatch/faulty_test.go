package dispatch_test

import (
	"context"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// faulty is a store that can be away, or lose the reply of a write that it carried out.
type faulty struct {
	store.Store
	mu   sync.Mutex
	down map[string]int // operations that fail this many more times
	lost map[string]int // operations whose reply is lost this many more times
	// stall is how long the process is stopped after the next time an operation was carried out.
	stall map[string]time.Duration

	afterGet func() // is called once, after a record was read
}

func newFaulty(st store.Store) *faulty {
	return &faulty{Store: st, down: make(map[string]int), lost: make(map[string]int), stall: make(map[string]time.Duration)}
}

func (f *faulty) breakNext(down bool, operation string, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if down {
		f.down[operation] = times
	} else {
		f.lost[operation] = times
	}
}

func (f *faulty) take(m map[string]int, operation string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m[operation] == 0 {
		return false
	}
	m[operation]--
	return true
}

func (f *faulty) stallAfter(operation string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stall[operation] = d
}

func (f *faulty) stalls(operation string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.stall[operation]
	delete(f.stall, operation)
	return d
}

func ask[T any](f *faulty, operation string, do func() (T, error)) (T, error) {
	var none T
	if f.take(f.down, operation) {
		return none, store.ErrDown
	}
	answer, err := do()
	time.Sleep(f.stalls(operation))
	if f.take(f.lost, operation) {
		return none, store.ErrDown
	}
	return answer, err
}

func (f *faulty) Reserve(ctx context.Context, p store.ReserveParams) (store.Reservation, error) {
	return ask(f, "reserve", func() (store.Reservation, error) { return f.Store.Reserve(ctx, p) })
}

func (f *faulty) Create(ctx context.Context, p store.CreateParams) (*core.Job, bool, error) {
	created := false
	job, err := ask(f, "create", func() (job *core.Job, err error) {
		job, created, err = f.Store.Create(ctx, p)
		return job, err
	})
	return job, created && err == nil, err
}

func (f *faulty) Apply(ctx context.Context, p store.ApplyParams) (store.Applied, error) {
	applied, err := ask(f, "apply", func() (store.Applied, error) { return f.Store.Apply(ctx, p) })
	if p.Event == core.EventMove {
		time.Sleep(f.stalls("move"))
	}
	return applied, err
}

func (f *faulty) Release(ctx context.Context, p store.ReleaseParams) error {
	_, err := ask(f, "release", func() (struct{}, error) { return struct{}{}, f.Store.Release(ctx, p) })
	return err
}

func (f *faulty) Commit(ctx context.Context, r core.LeaseRef) (bool, error) {
	return ask(f, "commit", func() (bool, error) { return f.Store.Commit(ctx, r) })
}

func (f *faulty) Get(ctx context.Context, id core.JobID) (*core.Job, error) {
	job, err := ask(f, "get", func() (*core.Job, error) { return f.Store.Get(ctx, id) })
	if then := f.afterGet; then != nil {
		f.afterGet = nil
		then()
	}
	return job, err
}

func (f *faulty) Mark(ctx context.Context, m store.Mark) error {
	_, err := ask(f, "mark", func() (struct{}, error) { return struct{}{}, f.Store.Mark(ctx, m) })
	return err
}
