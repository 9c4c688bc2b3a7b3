package redistest

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/child"
)

// Proxy is a TCP proxy before a server that injects faults into the connections through it. Without a fault it is
// transparent.
type Proxy struct {
	tb      testing.TB
	addr    string
	target  string
	running sync.WaitGroup // all goroutines

	mu       sync.Mutex
	listener net.Listener // nil while new connections are refused
	conns    map[*proxyConn]struct{}
	delay    time.Duration
	unfrozen chan struct{} // closed when a freeze ends; nil: not frozen
	toDrop   int
	dropped  int
}

// StartProxy starts a proxy on a free port before a target, which is host:port.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p := &Proxy{tb: tb, addr: child.Address(child.Port(tb)), target: target, conns: make(map[*proxyConn]struct{})}
	tb.Cleanup(func() {
		p.Refuse(true)
		p.running.Wait()
	})
	p.open()
	return p
}

// Addr returns the address of the proxy, as host:port.
func (p *Proxy) Addr() string { return p.addr }

// URL returns the store URL through the proxy.
func (p *Proxy) URL() string { return "redis://" + p.addr + "/0" }

// listen starts to accept connections.
func (p *Proxy) listen() (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(withoutCancel(p.tb), "tcp", p.addr)
	if err != nil {
		return nil, err
	}
	p.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed by Refuse or at the end of the test
			}
			p.running.Go(func() { p.serve(listener, client) })
		}
	})
	return listener, nil
}

// serve forwards a connection until either side or a fault ends it.
func (p *Proxy) serve(via net.Listener, client net.Conn) {
	c := &proxyConn{proxy: p, client: client, done: make(chan struct{})}
	if !p.admit(via, c) {
		_ = client.Close()
		return
	}
	c.run(withoutCancel(p.tb))
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// admit registers a connection, unless it was accepted just before connections were refused.
func (p *Proxy) admit(via net.Listener, c *proxyConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != via {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// Delay delays everything that the server sends from now on, and keeps the order. Zero ends the delay.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut closes all connections. New connections work.
func (p *Proxy) Cut() {
	p.mu.Lock()
	links := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	for _, c := range links {
		c.close()
	}
}

// Refuse closes all connections and refuses new ones, or accepts them again.
func (p *Proxy) Refuse(on bool) {
	p.tb.Helper()
	if !on {
		p.open()
		return
	}
	p.mu.Lock()
	listener := p.listener
	p.listener = nil
	p.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
	p.Cut()
}

// open listens if the proxy does not listen yet. A process that another test starts at the same time holds a copy of the
// old socket until it executes its program, so the port may be taken for a moment.
func (p *Proxy) open() {
	p.tb.Helper()
	eventually(p.tb, startTimeout, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.listener != nil {
			return nil
		}
		listener, err := p.listen()
		if err != nil {
			return fmt.Errorf("the proxy cannot listen at %s: %w", p.addr, err)
		}
		p.listener = listener
		return nil
	})
}

// Freeze simulates a hung server: connections are accepted, and nothing passes in either direction until the freeze ends.
// Then everything that was sent meanwhile passes.
func (p *Proxy) Freeze(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && p.unfrozen == nil:
		p.unfrozen = make(chan struct{})
	case !on && p.unfrozen != nil:
		close(p.unfrozen)
		p.unfrozen = nil
	}
}

// DropReplies drops the next n replies, on any connection, and closes the connection each time. The server has run the
// command, and the client cannot know. Replies that arrive together, such as those of a pipeline, are dropped together and
// count once. Zero ends it.
func (p *Proxy) DropReplies(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.toDrop = n
}

// Dropped returns how many replies DropReplies has dropped.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// takeDrop reports whether the next reply is to be dropped, and counts it.
func (p *Proxy) takeDrop() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.toDrop <= 0 {
		return false
	}
	p.toDrop--
	p.dropped++
	return true
}

// arrivalTime returns when a reply that was received now may be passed on.
func (p *Proxy) arrivalTime() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.delay)
}

func (p *Proxy) frozen() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unfrozen
}
