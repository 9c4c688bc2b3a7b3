package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

// Clock implements store.Clocks.
func (s *Store) Clock(ctx context.Context, key store.ClockKey) (time.Time, error) {
	if key.Job != "" {
		return s.client.clocks.serverClock(s.client.slotOf(s.keys.job(key.Job))), nil
	}
	slot := s.client.slotOf(s.keys.openClasses(key.Pool))
	if !s.client.clocks.known(slot) {
		if _, err := s.ViewQueue(ctx, key.Pool, fairqueue.ViewParams{}); err != nil {
			return time.Time{}, err
		}
	}
	return s.client.clocks.serverClock(slot), nil
}

// clocks estimates the clocks of the servers, so that a write can carry its deadline (not_after) on the clock of the server that
// executes it. Each slot has its own estimate, because each master of a cluster has its own clock.
//
// An estimate is a lower bound: the time in a reply, minus the time of its arrival here, is below the true difference by the latency
// of the reply. A lower bound errs towards refusing a write. When the error is too large, the refusal itself brings a better estimate.
// For a slot without a reply so far, the lowest estimate of all is used.
type clocks struct {
	base   time.Time
	slots  []clockEstimate
	lowest clockEstimate // the lowest recent estimate, for slots without one
}

// clockEstimate is the difference between the clock of a server and ours in milliseconds, and when it was updated (0: never).
type clockEstimate struct{ difference, updated atomic.Int64 }

// estimateTTL is how long the best estimate is kept against worse ones.
const estimateTTL = 10 * time.Second

func newClocks(slots int) *clocks {
	return &clocks{base: time.Now(), slots: make([]clockEstimate, slots)}
}

// now is this process's clock in milliseconds. Only differences matter.
func (c *clocks) now() int64 { return time.Since(c.base).Milliseconds() }

// observe updates the estimate of a slot with the time in a reply.
func (c *clocks) observe(slot int, serverTime int64) {
	now := c.now()
	difference := serverTime - now - 1 // the server's millisecond is incomplete
	estimate := &c.slots[slot%len(c.slots)]
	updated := estimate.updated.Load()
	if updated == 0 || difference >= estimate.difference.Load() || now-updated > estimateTTL.Milliseconds() {
		estimate.difference.Store(difference)
		estimate.updated.Store(max(now, 1))
	}
	if updated := c.lowest.updated.Load(); updated == 0 || difference < c.lowest.difference.Load() ||
		now-updated > estimateTTL.Milliseconds() {
		c.lowest.difference.Store(difference)
		c.lowest.updated.Store(max(now, 1))
	}
}

// reset replaces the estimate of a slot by the time in the reply of a server that refused a write as late.
func (c *clocks) reset(slot int, serverTime int64) {
	c.slots[slot%len(c.slots)].updated.Store(0)
	c.observe(slot, serverTime)
}

// serverTime estimates the time of a slot's server.
func (c *clocks) serverTime(slot int) int64 {
	estimate := &c.slots[slot%len(c.slots)]
	if estimate.updated.Load() != 0 {
		return c.now() + estimate.difference.Load()
	}
	return c.now() + c.lowest.difference.Load()
}

// known reports whether there is an estimate of a slot's own.
func (c *clocks) known(slot int) bool { return c.slots[slot%len(c.slots)].updated.Load() != 0 }

// serverClock is serverTime without the loss of the fraction of a millisecond: the difference between two of its times is that of our
// clock.
func (c *clocks) serverClock(slot int) time.Time {
	now := c.now()
	return time.UnixMilli(c.serverTime(slot)).Add(time.Since(c.base) - time.Duration(now)*time.Millisecond)
}

// notAfter returns the deadline of a context on the clock of a slot's server, 0 when it has none.
func (c *clocks) notAfter(ctx context.Context, slot int) int64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	estimate := &c.slots[slot%len(c.slots)]
	difference := c.lowest.difference.Load()
	if estimate.updated.Load() != 0 {
		difference = estimate.difference.Load()
	}
	return deadline.Sub(c.base).Milliseconds() + difference
}
