package telemetry

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/run"
)

// Locks measures the waits for locks that were held. The label lock is the name of one.
type Locks struct {
	LockWait     *Timings // lock
	SlowLockWait *Counts  // lock
}

func newLocks(f factory) Locks {
	l := Locks{
		LockWait: f.timings("lingua_lock_wait_seconds", "Waits for locks that were held when they were asked for, by lock.",
			prometheus.ExponentialBuckets(10e-6, 4, 10), "lock"),
		SlowLockWait: f.counts("scheduler_slow_lock_wait_total", "Waits for locks that took longer than lock_wait_warn_ms, by lock.",
			"lock"),
	}
	l.SlowLockWait.known = run.LockNames // the rate of each begins at zero
	return l
}

const (
	// maxSlowWaits bounds the slow waits that are not logged yet. Those beyond it are only counted.
	maxSlowWaits = 64
	// slowWaitInterval is the time between two warnings about the same lock.
	slowWaitInterval = time.Second
)

// LockWaits counts the waits for locks and warns of slow ones. Make one with NewLockWaits.
type LockWaits struct {
	metrics *Locks
	slow    time.Duration
	waits   chan slowWait
	log     *slog.Logger
}

// slowWait is one wait that took too long.
type slowWait struct {
	lock   string
	waited time.Duration
	at     time.Time
}

// NewLockWaits makes a LockWaits. A wait is slow if it takes longer than slow.
func NewLockWaits(m *Locks, slow time.Duration, log *slog.Logger) *LockWaits {
	return &LockWaits{metrics: m, slow: slow, waits: make(chan slowWait, maxSlowWaits), log: log}
}

// observe implements run.Observer. The lock is held, so the warning is left to Run.
func (l *LockWaits) observe(lock string, waited time.Duration) {
	l.metrics.LockWait.WithLabelValues(lock).Observe(waited)
	if waited <= l.slow {
		return
	}
	l.metrics.SlowLockWait.WithLabelValues(lock).Inc()
	select {
	case l.waits <- slowWait{lock, waited, time.Now()}:
	default:
	}
}

// Run observes the locks of this process, and logs slow waits, until the context ends.
func (l *LockWaits) Run(ctx context.Context) {
	defer run.Observe(l.observe)()
	logged := make(map[string]time.Time) // by lock: when the last warning was logged
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-l.waits:
			if last, ok := logged[w.lock]; ok && w.at.Sub(last) < slowWaitInterval {
				continue
			}
			logged[w.lock] = w.at
			l.log.Warn("slow wait for a lock", "lock", w.lock, "waited_ms", w.waited.Milliseconds(), "threshold_ms", l.slow.Milliseconds())
		}
	}
}
