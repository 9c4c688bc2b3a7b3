package redisstore

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostLent is how many permits may be out with nobody waiting. The rest is for those who try whether Redis is
	// back; the ring has room for them.
	mostLent = permits - 64
	// lentFor is how long a command without an answer can be on its way: a connection on which nothing comes back
	// for writeWithin, after a ping or before one, is dead.
	lentFor = 4 * writeWithin
)

// lent keeps count of the permits of commands whose callers have left. They are free again when a command that was
// sent later has been answered, because a connection answers in order; or when the connection must be dead.
type lent struct {
	sent  atomic.Uint64 // numbers commands
	out   atomic.Int64
	until atomic.Uint64 // an answer to a later command than this frees them

	mu    sync.Mutex
	timer *time.Timer
}

func (t *lent) next() uint64 { return t.sent.Add(1) }

// lend notes that n commands were left without an answer, and returns how many of their permits are free at once.
func (t *lent) lend(n int, give func(int)) int {
	for out := t.out.Load(); ; out = t.out.Load() {
		if out+int64(n) > mostLent {
			return n
		}
		if t.out.CompareAndSwap(out, out+int64(n)) {
			break
		}
	}
	t.until.Store(t.sent.Load())
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil {
		t.timer = time.AfterFunc(lentFor, func() { give(int(t.out.Swap(0))) })
	} else {
		t.timer.Reset(lentFor)
	}
	return 0
}

// answered returns how many permits are free now that a command has been answered.
func (t *lent) answered(number uint64) int {
	if t.out.Load() == 0 || number <= t.until.Load() {
		return 0
	}
	return int(t.out.Swap(0))
}

func (t *lent) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}
