package stats

import (
	"context"
	"log/slog"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Leader lets one instance of all do some work. An instance that is suspended may still believe that it leads; what it writes carries its
// fence, and the store refuses a lower one than the last.
type Leader struct {
	Locks    store.Locks
	Name     string // of the lock
	Instance core.InstanceID
	Log      *slog.Logger
}

const (
	leaderTTL    = 7500 * time.Millisecond // after its death another instance leads within leaderTTL + leaderPeriod
	leaderPeriod = 2 * time.Second         // between two tries to become the leader
)

// Run tries to lead until the context ends. While it leads, lead runs with the fence; its context ends when this instance may not be the
// leader any more, and it must return then.
func (l *Leader) Run(ctx context.Context, lead func(ctx context.Context, fence int64)) {
	for ctx.Err() == nil {
		requested := time.Now()
		if got, err := l.Locks.Lock(ctx, l.params()); err == nil && got.Held {
			l.lead(ctx, requested, got.Fence, lead)
		}
		if !run.SleepJitter(ctx, leaderPeriod, 0.2) {
			return
		}
	}
}

func (l *Leader) params() store.LockParams {
	return store.LockParams{Name: l.Name, Holder: string(l.Instance), TTL: leaderTTL}
}

// lead runs the leader's work while its lock is renewed in time.
func (l *Leader) lead(ctx context.Context, requested time.Time, fence int64, lead func(ctx context.Context, fence int64)) {
	l.Log.Info("this instance leads", "task", l.Name, "fence", fence)
	leading, release := store.KeepLock(ctx, l.Locks, l.params(), fence, requested)
	lead(leading, fence)
	release()
	if ctx.Err() == nil {
		l.Log.Warn("this instance does not lead any more", "task", l.Name, "fence", fence)
		return
	}
	unlocking, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = l.Locks.Unlock(unlocking, l.params()) // if it fails, the lock expires
}
