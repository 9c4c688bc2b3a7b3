package guard

import (
	"context"
	"log/slog"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// Locks is the part of the store with which instances agree on a leader.
type Locks interface {
	Lock(ctx context.Context, p store.LockParams) (store.Lock, error)
	Unlock(ctx context.Context, p store.LockParams) error
}

// Leader lets one instance of all do some work. An instance that is suspended may still believe that it leads; what it writes carries its
// fence, and the store refuses a lower one than the last.
type Leader struct {
	Locks    Locks
	Name     string // of the lock
	Instance core.InstanceID
	Log      *slog.Logger
}

const (
	leaderTTL    = 6 * time.Second // after its death another instance leads within leaderTTL + leaderPeriod
	leaderPeriod = 2 * time.Second // between two renewals, and two tries to become the leader
)

// Run tries to lead until the context ends. While it leads, lead runs with the fence; its context ends when this instance may not be the
// leader any more.
func (l *Leader) Run(ctx context.Context, lead func(ctx context.Context, fence int64)) {
	for ctx.Err() == nil {
		asked := time.Now()
		if got, err := l.Locks.Lock(ctx, l.params()); err == nil && got.Held {
			l.lead(ctx, asked, got.Fence, lead)
		}
		if !backoff.SleepJitter(ctx, leaderPeriod, 0.2) {
			return
		}
	}
}

func (l *Leader) params() store.LockParams {
	return store.LockParams{Name: l.Name, Holder: string(l.Instance), TTL: leaderTTL}
}

// lead runs the leader's work while its lock is renewed in time.
func (l *Leader) lead(ctx context.Context, asked time.Time, fence int64, lead func(ctx context.Context, fence int64)) {
	l.Log.Info("this instance leads", "task", l.Name, "fence", fence)
	leading, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lead(leading, fence)
	}()
	for until := asked.Add(leaderTTL); ; {
		if !backoff.Sleep(ctx, min(leaderPeriod, time.Until(until))) {
			break
		}
		asked := time.Now()
		got, err := l.Locks.Lock(ctx, l.params())
		switch {
		case err == nil && (!got.Held || got.Fence != fence):
			until = time.Time{} // another instance led meanwhile
		case err == nil:
			until = asked.Add(leaderTTL)
		}
		if !time.Now().Before(until) {
			l.Log.Warn("this instance does not lead any more", "task", l.Name, "fence", fence)
			break
		}
	}
	stop()
	<-ended
	if ctx.Err() != nil {
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = l.Locks.Unlock(release, l.params()) // if it fails, the lock expires
	}
}
