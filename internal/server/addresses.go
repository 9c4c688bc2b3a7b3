package server

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// addressLimit bounds how many connections one address has: each costs a file and some kilobytes for as long as it is
// open, and no credential is needed to open one. One that becomes a WebSocket is the socket's to count.
type addressLimit struct {
	max int // 0: any number
	log *slog.Logger

	mu    sync.Mutex
	conns map[net.Conn]netip.Addr // those that count
	open  map[netip.Addr]int
}

func newAddressLimit(most int, log *slog.Logger) *addressLimit {
	return &addressLimit{max: most, log: log, conns: make(map[net.Conn]netip.Addr), open: make(map[netip.Addr]int)}
}

// connState is called by the http.Server when a connection begins and when it ends for it.
func (l *addressLimit) connState(c net.Conn, state http.ConnState) {
	if l.max == 0 {
		return
	}
	switch state {
	case http.StateNew:
		if from, ok := l.admit(c); !ok {
			l.log.Warn("a connection was refused: its address has as many as it may", "remote", from.String(), "max", l.max)
			l.refuse(c)
		}
	case http.StateHijacked, http.StateClosed:
		l.release(c)
	}
}

func (l *addressLimit) admit(c net.Conn) (netip.Addr, bool) {
	peer, _ := netip.ParseAddrPort(c.RemoteAddr().String()) // what is not an address counts as one
	from := peer.Addr().Unmap()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[from] >= l.max {
		return from, false
	}
	l.open[from]++
	l.conns[c] = from
	return from, true
}

func (l *addressLimit) release(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, counted := l.conns[c]
	if !counted {
		return
	}
	delete(l.conns, c)
	if l.open[from]--; l.open[from] == 0 {
		delete(l.open, from)
	}
}

// refusalTimeout bounds the answer to a connection that is refused. It fits into what the kernel takes at once.
const refusalTimeout = 100 * time.Millisecond

// refuse answers a connection without waiting for what it asks, and closes it.
func (l *addressLimit) refuse(c net.Conn) {
	defer func() { _ = c.Close() }() // it is given up, whatever it says
	e := wire.Errorf(wire.RateLimited, "your address has %d connections, which is as many as it may have: close one first", l.max).RetryIn(retryRefused)
	body, err := json.Marshal(e)
	if err != nil {
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(refusalTimeout))
	_, _ = fmt.Fprintf(c, "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: %d\r\nConnection: close\r\n\r\n%s",
		len(body), e.RetryAfter, body)
}

// retryRefused is what a client with too many connections is told to wait.
const retryRefused = 5 * time.Second
