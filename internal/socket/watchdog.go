package socket

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// health is what the watchdog knows of a connection. Times are measured from when the hub started.
type health struct {
	nextPing    time.Duration // 0: the connection was never checked
	unanswered  int           // pings since bytes were last received
	writes      uint          // the write that was in progress at the last check
	writeSince  time.Duration // since when that write is in progress
	closeSeenAt time.Duration // when the connection was first seen closing
}

// checksPerTimeout is how often the watchdog checks all connections within the shorter of Options.Ping and Options.Stall.
const checksPerTimeout = 16

// Run is the watchdog of all connections, until the context ends. It pings silent peers, closes connections on which two pings were
// not answered, and aborts those whose write or closing handshake is stuck.
func (h *Hub) Run(ctx context.Context) {
	tick := time.NewTicker(max(time.Millisecond, min(h.opts.Ping, h.opts.Stall)/checksPerTimeout))
	defer tick.Stop()
	var conns []*Conn
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			conns = h.appendConns(conns[:0])
			for _, c := range conns {
				c.checkHealth(now.Sub(h.started))
			}
			clear(conns) // or a connection that ended would be kept until the next check
		}
	}
}

// maxPingPayload is the maximum length of the payload of a control frame (RFC 6455, section 5.5).
const maxPingPayload = 125

// Ping queues a ping with a payload, like Send. The pong follows everything that the peer wrote before it.
func (c *Conn) Ping(payload []byte) bool {
	return len(payload) <= maxPingPayload && c.enqueue(opPing, payload)
}

// checkHealth is one check by the watchdog.
func (c *Conn) checkHealth(now time.Duration) {
	c.mu.Lock()
	writing, writes, closing := c.queue.writing, c.queue.writes, c.closing
	c.mu.Unlock()
	s, o := &c.health, &c.hub.opts
	if closing {
		if s.closeSeenAt == 0 || writes != s.writes {
			s.closeSeenAt, s.writes = now, writes
		} else if now-s.closeSeenAt >= o.Stall {
			c.Abort()
		}
		return
	}
	if !writing || writes != s.writes {
		s.writes, s.writeSince = writes, now
	} else if now-s.writeSince >= o.Stall {
		o.Log.Debug("aborted a connection: the peer does not read", "remote", c.remoteAddr)
		c.closeTransport(wire.CloseSlow, true)
		return
	}
	switch received := c.received.Swap(false); {
	case received || s.nextPing == 0:
		s.unanswered = 0
	case now < s.nextPing:
		return
	case s.unanswered < 2:
		s.unanswered++
		c.enqueue(opPing, nil)
	default:
		c.Close(wire.CloseSlow, wire.Errorf(wire.DeadlineExceeded, "nothing came from you, and two pings were not answered: connect again"))
		return
	}
	s.nextPing = now + time.Duration((0.8+0.4*rand.Float64())*float64(o.Ping))
}
