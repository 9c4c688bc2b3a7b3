package interop

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/lingua-scheduler/lingua/test/child"
)

// proxy is a TCP proxy before an instance that can cut a connection in the middle of a frame.
type proxy struct {
	t       *testing.T
	target  string
	address string

	mu      sync.Mutex
	cutDone chan struct{} // closed after the next cut; nil: no cut is due
	conns   map[*proxiedConn]bool
	running sync.WaitGroup
}

type proxiedConn struct{ client, server net.Conn }

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := newProxy(t, target)
	p.open()
	return p
}

// newProxy returns a proxy that refuses connections until it is opened.
func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	return &proxy{t: t, target: target, address: child.Address(child.Port(t)), conns: make(map[*proxiedConn]bool)}
}

// open lets the proxy accept connections.
func (p *proxy) open() {
	p.t.Helper()
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.running.Add(1)
	go func() {
		defer p.running.Done()
		p.accept(listener)
	}()
	p.t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for c := range p.conns {
			c.reset()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
}

// cut passes half of the next bytes from the client and resets the connection. It returns after the reset.
func (p *proxy) cut() {
	p.t.Helper()
	done := make(chan struct{})
	p.mu.Lock()
	p.cutDone = done
	p.mu.Unlock()
	<-done
}

func (p *proxy) accept(from net.Listener) {
	for {
		client, err := from.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &proxiedConn{client, server}
		p.mu.Lock()
		p.conns[c] = true
		p.mu.Unlock()
		p.running.Add(2)
		go func() {
			defer p.running.Done()
			_, _ = io.Copy(client, server)
			p.drop(c)
		}()
		go func() {
			defer p.running.Done()
			p.copyFromClient(c)
			p.drop(c)
		}()
	}
}

func (p *proxy) drop(c *proxiedConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.reset()
}

// copyFromClient copies bytes from the client, up to a cut.
func (p *proxy) copyFromClient(c *proxiedConn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := c.client.Read(buffer)
		p.mu.Lock()
		cut := p.cutDone
		if n > 0 {
			p.cutDone = nil
		}
		p.mu.Unlock()
		if cut != nil && n > 0 {
			_, _ = c.server.Write(buffer[:n/2])
			close(cut)
			return
		}
		if n > 0 {
			if _, err := c.server.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// reset closes both sides with a TCP reset.
func (c *proxiedConn) reset() {
	for _, side := range []net.Conn{c.client, c.server} {
		if tcp, ok := side.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = side.Close()
	}
}
