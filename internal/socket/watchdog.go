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
	reads       uint64        // Conn.reads at the last check
	unanswered  int           // pings since bytes were last received
	writes      uint          // the write that was in progress at the last check
	writeSince  time.Duration // the time at which that write began
	messageAt   time.Duration // the check that last found that a message was sent
	closeSeenAt time.Duration // when the connection was first seen closing
}

// checksPerTimeout is how often the watchdog checks each connection within the shorter of Options.Ping and Options.Stall.
const checksPerTimeout = 16

// checkInterval is how often the watchdog checks each connection.
func (o *Options) checkInterval() time.Duration {
	return hubParts * max(time.Millisecond, min(o.Ping, o.Stall)/checksPerTimeout/hubParts)
}

// Run is the watchdog of all connections, until the context ends. It pings silent peers, closes connections on which two pings were
// not answered, aborts those whose write or closing handshake is stuck, and sends keepalives.
func (h *Hub) Run(ctx context.Context) {
	tick := time.NewTicker(h.opts.checkInterval() / hubParts)
	defer tick.Stop()
	var conns []*Conn
	for part := 0; ; part = (part + 1) % hubParts {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			conns = h.appendConns(conns[:0], h.conns[part:part+1])
			for _, c := range conns {
				c.checkHealth(now.Sub(h.started))
			}
			clear(conns) // or a connection that ended would be kept until a later check
		}
	}
}

// maxPingPayload is the maximum length of the payload of a control frame (RFC 6455, section 5.5).
const maxPingPayload = 125

// Ping queues a ping with a payload, like Send. The pong follows everything that the peer wrote before it.
func (c *Conn) Ping(payload []byte) bool {
	return len(payload) <= maxPingPayload && c.enqueue(opPing, payload)
}

// The bounds of the interval of keepalives, in milliseconds. The shortest is longer than two checks of the watchdog.
const (
	MinKeepalive = 1500
	MaxKeepalive = 60_000
)

// CheckKeepalive checks an interval that a peer asks for; 0: none.
func CheckKeepalive(ms int64) *wire.Error {
	if ms != 0 && (ms < MinKeepalive || ms > MaxKeepalive) {
		return wire.Invalid("keepalive_ms", "must be %d to %d, or absent", MinKeepalive, MaxKeepalive)
	}
	return nil
}

// SetKeepalive makes the watchdog send wire.Keepalive when no other message is sent for an interval in milliseconds: a peer to which
// nothing comes can conclude that the instance is gone. Pings are no substitute, because a browser does not show them to its pages. 0: none
// is sent.
func (c *Conn) SetKeepalive(ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepalive = time.Duration(ms) * time.Millisecond
}

// keepaliveText is encoded once for all connections.
var keepaliveText, _ = wire.EncodeFrame(wire.Keepalive{}) // it has no field that could fail

// checkHealth is one check by the watchdog.
func (c *Conn) checkHealth(now time.Duration) {
	c.mu.Lock()
	writing, writes, closing, keepalive, sent := c.queue.writing, c.queue.writes, c.closing, c.keepalive, c.queue.sent
	c.queue.sent = false
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
	if sent {
		s.messageAt = now
	}
	// The last message may be older by one interval than the check that found it, and the next check comes after another one.
	if keepalive > 0 && now-s.messageAt+2*o.checkInterval() > keepalive {
		c.enqueue(opText, keepaliveText)
	}
	reads := c.reads.Load()
	received := reads != s.reads
	s.reads = reads
	switch {
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
