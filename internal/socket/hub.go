// Package socket is the server side of WebSocket connections (RFC 6455), independent of what is sent over them, and the Hub that
// holds all of them. It bounds queues, sends pings and keepalives, and performs the closing handshake. It knows nothing of nodes, sessions
// or jobs.
//
// The library (coder/websocket) performs the opening handshake and parses incoming frames. This package writes frames itself,
// because a ping must not wait for its pong, a pong must not block the reader, queued frames should be written in one system
// call, and an error frame precedes every close, also one for a protocol error.
//
// A connection uses the goroutine of the caller, which reads, and one more while there is something to write. It has no timer,
// context or goroutine beside these: one watchdog, Hub.Run, checks all connections.
package socket

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// Options configures the connections of a Hub. The zero value of each field means its default.
type Options struct {
	MaxFrame      int64         // the largest message that is read, in bytes; wire.MaxFrame
	QueueMessages int           // the maximum number of messages that wait to be written on one connection; 4096
	QueueBytes    int           // the maximum number of bytes that wait there; 1 MiB
	Ping          time.Duration // after how long a silence a ping is sent, ±20 %; 15 s
	Stall         time.Duration // how long one write, or a closing handshake, may take before the connection is aborted; 10 s
	PerAddress    int           // the maximum number of connections of one remote address; 0: no limit
	// Origins are the hosts whose pages may connect, beside the requested host itself: "app.example.com", "*.example.com" for its
	// subdomains, "https://app.example.com" for one scheme only, "*" for all.
	Origins []string
	// Ended is called once for each connection, with how it ended. It must not block.
	Ended func(CloseError)
	Log   *slog.Logger // slog.Default()
}

func (o Options) withDefaults() Options {
	o.MaxFrame = cmp.Or(o.MaxFrame, wire.MaxFrame)
	o.QueueMessages = cmp.Or(o.QueueMessages, 4096)
	o.QueueBytes = cmp.Or(o.QueueBytes, 1<<20)
	o.Ping = cmp.Or(o.Ping, 15*time.Second)
	o.Stall = cmp.Or(o.Stall, 10*time.Second)
	if o.Ended == nil {
		o.Ended = func(CloseError) {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// hubParts is into how many parts the connections are divided. The watchdog checks one part after the other, so that the keepalives of
// thousands of idle connections are not written at once, before the messages of all others.
const hubParts = 16

// Hub holds all connections. Its Run must run for as long as there are any.
type Hub struct {
	opts    Options
	started time.Time // the watchdog measures times from here

	mu         run.Mutex
	conns      [hubParts]map[*Conn]struct{}
	added      uint               // connections so far, which go to the parts in turn
	perAddress map[netip.Addr]int // connections and handshakes of each address, if those are limited
	open       int                // connections and handshakes
	refusals   int                // those of them that are open only to be refused
	closed     bool
	drained    chan struct{} // closed when the hub is closed and no connection or handshake is left
}

// NewHub makes a hub without connections.
func NewHub(o Options) *Hub {
	h := &Hub{opts: o.withDefaults(), started: time.Now(), drained: make(chan struct{}),
		mu: run.NewMutex("socket_hub"), perAddress: make(map[netip.Addr]int)}
	for i := range h.conns {
		h.conns[i] = make(map[*Conn]struct{})
	}
	return h
}

// Len is the number of connections.
func (h *Hub) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, part := range h.conns {
		n += len(part)
	}
	return n
}

// maxRefusals is how many connections at a time are open only to be refused.
const maxRefusals = 256

// retryAfter is the Retry-After of a client that has too many connections.
const retryAfter = 5 * time.Second

// admit counts a connection before its handshake, or returns the status and the error with which it is refused. Only a counted
// one counts towards the limit of its address.
func (h *Hub) admit(addr netip.Addr, counted bool) (int, *wire.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return http.StatusServiceUnavailable, errStopping()
	}
	if !counted {
		if h.refusals >= maxRefusals {
			return http.StatusTooManyRequests,
				wire.Errorf(wire.RateLimited, "too many connections are being refused: try again with a valid "+
					"credential").RetryIn(retryAfter)
		}
		h.refusals++
	}
	if limit := h.opts.PerAddress; counted && limit > 0 {
		if h.perAddress[addr] >= limit {
			e := wire.Errorf(wire.RateLimited, "your address has %d connections, which is the limit: close one first", limit)
			return http.StatusTooManyRequests, e.RetryIn(retryAfter)
		}
		h.perAddress[addr]++
	}
	h.open++
	return 0, nil
}

// add adds an admitted connection after its handshake, and reports whether the hub was closed meanwhile.
func (h *Hub) add(c *Conn) (closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.part = uint8(h.added % hubParts)
	h.added++
	h.conns[c.part][c] = struct{}{}
	return h.closed
}

// remove ends the count of an admitted connection, whether or not its handshake succeeded.
func (h *Hub) remove(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns[c.part], c)
	if c.counted {
		if h.perAddress[c.addr]--; h.perAddress[c.addr] <= 0 {
			delete(h.perAddress, c.addr)
		}
	} else {
		h.refusals--
	}
	if h.open--; h.closed && h.open == 0 {
		close(h.drained)
	}
}

// appendConns appends the connections of some parts to list.
func (h *Hub) appendConns(list []*Conn, parts []map[*Conn]struct{}) []*Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, part := range parts {
		for c := range part {
			list = append(list, c)
		}
	}
	return list
}

// CloseIf closes every connection whose owner matches, as Conn.Close does. A connection without an owner does not match.
func (h *Hub) CloseIf(match func(owner any) bool, code wire.CloseCode, e *wire.Error) {
	for _, c := range h.appendConns(nil, h.conns[:]) {
		if owner := c.currentOwner(); owner != nil && match(owner) {
			c.Close(code, e)
		}
	}
}

func errStopping() *wire.Error {
	return wire.Errorf(wire.Internal, "this instance is stopping: connect again, and another will answer").RetryIn(time.Second)
}

// Close refuses new connections, closes every connection with wire.CloseDraining, and waits until all have ended. Those that are
// left when the context ends, or after Options.Stall, are aborted. The error reports that the context ended.
func (h *Hub) Close(ctx context.Context) error {
	h.mu.Lock()
	if !h.closed && h.open == 0 {
		close(h.drained)
	}
	h.closed = true
	h.mu.Unlock()
	for _, c := range h.appendConns(nil, h.conns[:]) {
		c.Close(wire.CloseDraining, errStopping())
	}
	timeout := time.NewTimer(h.opts.Stall)
	defer timeout.Stop()
	var err error
	select {
	case <-h.drained:
		return nil
	case <-timeout.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	for _, c := range h.appendConns(nil, h.conns[:]) {
		c.Abort()
	}
	<-h.drained
	return err
}
