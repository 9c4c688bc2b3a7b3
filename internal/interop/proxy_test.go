package interop

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/child"
)

// proxy passes TCP on to an instance, and can cut every connection in the middle of a frame.
type proxy struct {
	t       *testing.T
	target  string
	address string

	mu    sync.Mutex
	armed chan struct{} // closed at the cut; nil: there is none to come
	pipes map[*pipe]bool
	all   sync.WaitGroup
}

type pipe struct{ client, server net.Conn }

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", child.Address(0))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, target: target, address: listener.Addr().String(), pipes: make(map[*pipe]bool)}
	p.all.Add(1)
	go func() {
		defer p.all.Done()
		p.accept(listener)
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for each := range p.pipes {
			each.reset()
		}
		p.mu.Unlock()
		p.all.Wait()
	})
	return p
}

// cut lets half of the next bytes from the client pass and resets its connection; it returns when that has happened.
func (p *proxy) cut() {
	p.t.Helper()
	done := make(chan struct{})
	p.mu.Lock()
	p.armed = done
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
		each := &pipe{client, server}
		p.mu.Lock()
		p.pipes[each] = true
		p.mu.Unlock()
		p.all.Add(2)
		go func() {
			defer p.all.Done()
			_, _ = io.Copy(client, server)
			p.drop(each)
		}()
		go func() {
			defer p.all.Done()
			p.upward(each)
			p.drop(each)
		}()
	}
}

func (p *proxy) drop(each *pipe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pipes, each)
	each.reset()
}

// upward copies from the client, up to a cut.
func (p *proxy) upward(each *pipe) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := each.client.Read(buffer)
		p.mu.Lock()
		cut := p.armed
		if n > 0 {
			p.armed = nil
		}
		p.mu.Unlock()
		if cut != nil && n > 0 {
			_, _ = each.server.Write(buffer[:n/2])
			close(cut)
			return
		}
		if n > 0 {
			if _, err := each.server.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// reset ends both sides without the handshake that a close would make.
func (e *pipe) reset() {
	for _, side := range []net.Conn{e.client, e.server} {
		if tcp, ok := side.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = side.Close()
	}
}
