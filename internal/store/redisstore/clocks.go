package redisstore

import (
	"context"
	"sync/atomic"
	"time"
)

// clocks estimates the clocks of the servers, so that a write can say, on the clock of the server that will carry it
// out, after which moment it must not happen any more. Each slot has an estimate of its own, because each master of a
// cluster has a clock of its own.
//
// An estimate is a lower bound: what a reply said, less the moment it arrived here, is less than the true difference
// by the reply's way. A lower bound errs towards refusing. When it errs by too much the refusal itself brings a
// better one. For a slot that was not heard from yet, the clock furthest behind stands in.
type clocks struct {
	base  time.Time
	cells []cell
	low   cell // the least difference that was learned lately from any server, for slots not heard from yet
}

// cell is the difference of one slot's server in milliseconds, and when it was learned.
type cell struct{ difference, learned atomic.Int64 }

// freshFor is how long the best estimate of a server's clock stands against worse ones.
const freshFor = 10 * time.Second

func newClocks(slots int) *clocks { return &clocks{base: time.Now(), cells: make([]cell, slots)} }

// now is this process's clock in milliseconds. Only differences to it matter.
func (c *clocks) now() int64 { return time.Since(c.base).Milliseconds() }

// learn takes in what a server said the time was.
func (c *clocks) learn(slot int, server int64) {
	now := c.now()
	difference := server - now - 1 // the millisecond that has begun
	at := &c.cells[slot%len(c.cells)]
	learned := at.learned.Load()
	if learned == 0 || difference >= at.difference.Load() || now-learned > freshFor.Milliseconds() {
		at.difference.Store(difference)
		at.learned.Store(max(now, 1))
	}
	if since := c.low.learned.Load(); since == 0 || difference < c.low.difference.Load() || now-since > freshFor.Milliseconds() {
		c.low.difference.Store(difference)
		c.low.learned.Store(max(now, 1))
	}
}

// relearn takes in the time of a server that refused a write as late.
func (c *clocks) relearn(slot int, server int64) {
	c.cells[slot%len(c.cells)].learned.Store(0)
	c.learn(slot, server)
}

// server is about what a slot's server takes the time to be.
func (c *clocks) server(slot int) int64 {
	at := &c.cells[slot%len(c.cells)]
	if at.learned.Load() != 0 {
		return c.now() + at.difference.Load()
	}
	return c.now() + c.low.difference.Load()
}

// notAfter is the deadline of a context on the clock of a slot's server, 0 when it has none.
func (c *clocks) notAfter(ctx context.Context, slot int) int64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	at := &c.cells[slot%len(c.cells)]
	difference := c.low.difference.Load()
	if at.learned.Load() != 0 {
		difference = at.difference.Load()
	}
	return deadline.Sub(c.base).Milliseconds() + difference
}
