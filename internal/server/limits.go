package server

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// How long a peer may take. Every request and every answer has a timeout, so that a slow peer does not hold a connection.
const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 30 * time.Second // of a body that a handler reads
	// unreadBodyTimeout is for a body that no handler reads, because the request is refused without it: net/http reads to its end,
	// so that it can reuse the connection.
	unreadBodyTimeout = time.Second
	idleTimeout       = 2 * time.Minute
	// chunkTimeout is how long writing one writeChunk of an answer may take: a large answer may take longer, as long as it is read.
	chunkTimeout = 10 * time.Second
	writeChunk   = 64 << 10
	// answerTimeout is for what handlers of libraries write, from when the request was read.
	answerTimeout = 60 * time.Second
)

// limitUnreadBody sets the short timeout of a body until a handler calls allowBody.
func limitUnreadBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadBodyTimeout)) // fails only without a connection
	}
}

// allowBody sets the timeout of a body that is read.
func allowBody(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // as above
}

// writeBody writes the body of an answer, in one part or several. It gives up when the peer is gone or does not read.
func writeBody(w http.ResponseWriter, body ...[]byte) {
	control := http.NewResponseController(w)
	left := 0 // how much more may be written until the deadline
	for _, part := range body {
		for len(part) > 0 {
			if left == 0 {
				_ = control.SetWriteDeadline(time.Now().Add(chunkTimeout)) // as above
				left = writeChunk
			}
			n, err := w.Write(part[:min(len(part), left)])
			if err != nil {
				return
			}
			part, left = part[n:], left-n
		}
	}
}

// addressLimit bounds the number of connections of one address: each costs a file descriptor and some kilobytes for as long as it is
// open, and no credential is needed to open one. A connection that becomes a WebSocket is counted by the socket.Hub instead.
type addressLimit struct {
	max     int // 0: no limit
	log     *slog.Logger
	refused func(address string)

	mu    run.Mutex
	addrs map[net.Conn]netip.Addr // of the connections that count
	open  map[netip.Addr]int
}

// newAddressLimit makes a limit. refused is called with the address of each connection that is refused.
func newAddressLimit(limit int, log *slog.Logger, refused func(address string)) *addressLimit {
	return &addressLimit{
		max: limit, log: log, refused: refused,
		mu: run.NewMutex("server_addresses"), addrs: make(map[net.Conn]netip.Addr), open: make(map[netip.Addr]int),
	}
}

// connState is the http.Server's hook for connections that begin and end.
func (l *addressLimit) connState(c net.Conn, state http.ConnState) {
	if l.max == 0 {
		return
	}
	switch state {
	case http.StateNew:
		if addr, ok := l.admit(c); !ok {
			l.log.Warn("refused a connection: its address has reached the limit", "remote", addr.String(), "max", l.max)
			l.refused(addr.String())
			l.refuse(c)
		}
	case http.StateHijacked, http.StateClosed:
		l.release(c)
	}
}

func (l *addressLimit) admit(c net.Conn) (netip.Addr, bool) {
	addr := socket.PeerAddr(c.RemoteAddr().String())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[addr] >= l.max {
		return addr, false
	}
	l.open[addr]++
	l.addrs[c] = addr
	return addr, true
}

func (l *addressLimit) release(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	addr, counted := l.addrs[c]
	if !counted {
		return
	}
	delete(l.addrs, c)
	if l.open[addr]--; l.open[addr] == 0 {
		delete(l.open, addr)
	}
}

// refusalTimeout bounds the answer to a refused connection. The answer fits into the kernel's send buffer.
const refusalTimeout = 100 * time.Millisecond

// refuse answers a connection without waiting for its request, and closes it. A connection with TLS is closed without an answer: the
// handshake that would have to precede the answer waits for the peer, and here every other connection would wait for it too.
func (l *addressLimit) refuse(c net.Conn) {
	defer func() { _ = c.Close() }() // the connection is given up in any case
	if _, secure := c.(*tls.Conn); secure {
		return
	}
	e := wire.Errorf(wire.RateLimited, "your address has %d connections, which is the limit: close one first", l.max).RetryIn(refusedRetry)
	body, err := json.Marshal(e)
	if err != nil {
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(refusalTimeout))
	_, _ = fmt.Fprintf(c, "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: "+
		"%d\r\nConnection: close\r\n\r\n%s",
		len(body), e.RetryAfter, body)
}

// refusedRetry is the Retry-After of a client with too many connections.
const refusedRetry = 5 * time.Second
