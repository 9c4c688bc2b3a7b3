package socket

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// watch is what the watchdog remembers of a connection. Times are counted from when the hall began.
type watch struct {
	ping       time.Duration // when the next ping is due; 0: it was never looked at
	unanswered int           // pings since something was heard
	turn       uint          // the write that was going on, and since when
	since      time.Duration
	closing    time.Duration // when it was first seen closing
}

// looks is how often the watchdog looks within the shortest of its times.
const looks = 16

// Run is the watchdog of all connections, until the context ends. It pings the silent, closes those who answer
// neither of two pings, and cuts those whose write or close is stuck.
func (h *Hub) Run(ctx context.Context) {
	tick := time.NewTicker(max(time.Millisecond, min(h.opts.Ping, h.opts.Stall)/looks))
	defer tick.Stop()
	var list []*Conn
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			list = h.all(list[:0])
			for _, c := range list {
				c.look(now.Sub(h.began))
			}
			clear(list) // a connection that ended is not kept until the next look
		}
	}
}

// maxPing is how long the payload of a ping may be (RFC 6455, section 5.5).
const maxPing = 125

// Ping queues a ping with a payload and reports whether it could, in the manner of Send. The other side answers it when
// it has sent everything that it wrote before the answer.
func (c *Conn) Ping(payload []byte) bool {
	return len(payload) <= maxPing && c.enqueue(opPing, payload)
}

// OnPong has fn called with the payload of every pong that arrives. It is called within Read, so everything that was sent
// before the pong has been read.
func (c *Conn) OnPong(fn func(payload []byte)) { c.onPong.Store(&fn) }

func (c *Conn) pong(_ context.Context, payload []byte) {
	if fn := c.onPong.Load(); fn != nil {
		(*fn)(payload)
	}
}

// look is the watchdog's look at one connection.
func (c *Conn) look(now time.Duration) {
	c.mu.Lock()
	writing, turn, closing := c.writing, c.turn, c.closing
	c.mu.Unlock()
	w, o := &c.watch, &c.hall.opts
	if closing {
		if w.closing == 0 || turn != w.turn {
			w.closing, w.turn = now, turn
		} else if now-w.closing >= o.Stall {
			c.Abort()
		}
		return
	}
	if !writing || turn != w.turn {
		w.turn, w.since = turn, now
	} else if now-w.since >= o.Stall {
		o.Log.Debug("a connection was cut: what was sent was not read", "remote", c.address)
		c.hangUp(wire.CloseSlow, true)
		return
	}
	switch heard := c.heard.Swap(false); {
	case heard || w.ping == 0:
		w.unanswered = 0
	case now < w.ping:
		return
	case w.unanswered < 2:
		w.unanswered++
		c.enqueue(opPing, nil)
	default:
		c.Close(wire.CloseSlow, wire.Errorf(wire.DeadlineExceeded, "nothing came from you, and two pings were not answered: connect again"))
		return
	}
	w.ping = now + time.Duration((0.8+0.4*rand.Float64())*float64(o.Ping))
}
