package socket

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Hall keeps all connections. Its Run must run for as long as there are any.
type Hub struct {
	opts  Options
	began time.Time // the watchdog's times are counted from here

	mu      sync.Mutex
	conns   map[*Conn]struct{}
	from    map[netip.Addr]int // connections and handshakes of each address, where those are limited
	present int                // connections and handshakes
	closed  bool
	empty   chan struct{} // closed when the hall is closed and nobody is present
}

// NewHall makes an empty hall.
func NewHub(o Options) *Hub {
	return &Hub{
		opts: o.withDefaults(), began: time.Now(),
		conns: make(map[*Conn]struct{}), from: make(map[netip.Addr]int), empty: make(chan struct{}),
	}
}

// Len says how many connections there are.
func (h *Hub) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}

// retryAfter is what a client that has too many connections is told to wait.
const retryAfter = 5 * time.Second

// admit makes room for one more, before its handshake, or says with which status and error it is refused. Unless it is one
// that will be refused anyway, it counts for its address.
func (h *Hub) admit(from netip.Addr, counted bool) (int, *wire.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return http.StatusServiceUnavailable, stopping()
	}
	if most := h.opts.PerAddress; counted && most > 0 {
		if h.from[from] >= most {
			e := wire.Errorf(wire.RateLimited, "your address has %d connections, which is as many as it may have: close one first", most)
			return http.StatusTooManyRequests, e.RetryIn(retryAfter)
		}
		h.from[from]++
	}
	h.present++
	return 0, nil
}

// enter takes in a connection that was admitted, and reports whether the hall was closed meanwhile.
func (h *Hub) enter(c *Conn) (closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns[c] = struct{}{}
	return h.closed
}

// leave gives the room of one that was admitted free, whether or not its handshake came to an end.
func (h *Hub) leave(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
	if c.counted {
		if h.from[c.from]--; h.from[c.from] <= 0 {
			delete(h.from, c.from)
		}
	}
	if h.present--; h.closed && h.present == 0 {
		close(h.empty)
	}
}

// all appends the connections to list.
func (h *Hub) all(list []*Conn) []*Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.conns {
		list = append(list, c)
	}
	return list
}

func stopping() *wire.Error {
	return wire.Errorf(wire.Internal, "this instance is stopping: connect again, and another will answer").RetryIn(time.Second)
}

// Close lets nobody in any more, closes every connection with wire.CloseDraining, and waits until all have ended. Those
// that are still there when the context ends, or after Options.Stall, are cut; the error says that the context ended.
func (h *Hub) Close(ctx context.Context) error {
	h.mu.Lock()
	if !h.closed && h.present == 0 {
		close(h.empty)
	}
	h.closed = true
	h.mu.Unlock()
	for _, c := range h.all(nil) {
		c.Close(wire.CloseDraining, stopping())
	}
	patience := time.NewTimer(h.opts.Stall)
	defer patience.Stop()
	var err error
	select {
	case <-h.empty:
		return nil
	case <-patience.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	for _, c := range h.all(nil) {
		c.Abort()
	}
	<-h.empty
	return err
}
