package store

import (
	"context"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
)

// Locks lets one instance of all do some work.
type Locks interface {
	// Lock acquires a lock for TTL, or renews it for its holder, and reports whether the holder has it. The fence grows with every
	// change of holder and stays the same at a renewal.
	Lock(ctx context.Context, p LockParams) (Lock, error)
	// Unlock releases a lock if the holder has it, and does nothing otherwise.
	Unlock(ctx context.Context, p LockParams) error
}

// LockParams names a lock and its holder.
type LockParams struct {
	Name   string
	Holder string
	TTL    time.Duration
}

// Lock is the answer to an attempt to acquire a lock.
type Lock struct {
	Held  bool  // by the caller
	Fence int64 // of the current holder
}

// KeepLock renews a lock until the caller calls release, which it must. It was requested at a time and is held with a fence. The context
// ends when another holder has the lock or has had it since, or when it could not be renewed before it may have expired.
func KeepLock(ctx context.Context, locks Locks, p LockParams, fence int64, requested time.Time) (holding context.Context, release func()) {
	holding, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		defer cancel()
		until := requested.Add(p.TTL)
		wait := p.TTL / 2
		for run.Sleep(holding, min(run.Jitter(wait, 0.1), time.Until(until))) {
			requested := time.Now()
			call, done := context.WithDeadline(holding, until)
			got, err := locks.Lock(call, p)
			done()
			if wait = p.TTL / 2; err != nil {
				wait = p.TTL / 6 // so that one failure does not cost the lock
			}
			switch {
			case err == nil && (!got.Held || got.Fence != fence):
				return
			case err == nil:
				until = requested.Add(p.TTL)
			case !time.Now().Before(until):
				return
			}
		}
	})
	return holding, func() {
		cancel()
		renewing.Wait()
	}
}
