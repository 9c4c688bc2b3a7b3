package redistest

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/child"
)

// Proxy stands before a server and spoils the connections that go through it. Without a fault it is invisible.
type Proxy struct {
	tb     testing.TB
	addr   string
	target string
	works  sync.WaitGroup // all goroutines

	mu       sync.Mutex
	listener net.Listener // nil while new connections are refused
	links    map[*link]struct{}
	delay    time.Duration
	thaw     chan struct{} // closed when a freeze ends; nil when there is none
	toDrop   int
	dropped  int
}

// StartProxy listens on a free port and passes on to the target, which is host:port.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p := &Proxy{tb: tb, addr: child.Address(child.Port(tb)), target: target, links: make(map[*link]struct{})}
	tb.Cleanup(func() {
		p.Refuse(true)
		p.works.Wait()
	})
	p.open()
	return p
}

// Addr is where it listens, as host:port.
func (p *Proxy) Addr() string { return p.addr }

// URL is the same for a client.
func (p *Proxy) URL() string { return "redis://" + p.addr + "/0" }

// listen begins to accept.
func (p *Proxy) listen() (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(lifetime(p.tb), "tcp", p.addr)
	if err != nil {
		return nil, err
	}
	p.works.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed: by Refuse or by the end of the test
			}
			p.works.Go(func() { p.serve(listener, client) })
		}
	})
	return listener, nil
}

// serve passes on what a connection brings until either side or a fault ends it.
func (p *Proxy) serve(via net.Listener, client net.Conn) {
	l := &link{proxy: p, client: client, done: make(chan struct{})}
	if !p.admit(via, l) {
		_ = client.Close()
		return
	}
	l.run(lifetime(p.tb))
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// admit counts a connection in, unless it was accepted just before others began to be refused.
func (p *Proxy) admit(via net.Listener, l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != via {
		return false
	}
	p.links[l] = struct{}{}
	return true
}
