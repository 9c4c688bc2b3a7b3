package redistest

import (
	"context"
	"net"
	"sync"
	"time"
)

// link is one connection through the proxy.
type link struct {
	proxy  *Proxy
	client net.Conn
	done   chan struct{} // closed by cut

	mu     sync.Mutex
	server net.Conn // nil until the target accepted
	closed bool
}

// chunk is what the server sent at once, and when it may arrive.
type chunk struct {
	bytes []byte
	due   time.Time
}

// run passes bytes on in both directions and returns when the link is cut.
func (l *link) run(ctx context.Context) {
	defer l.cut()
	dialer := net.Dialer{Timeout: patience}
	server, err := dialer.DialContext(ctx, "tcp", l.proxy.target)
	if err != nil || !l.join(server) {
		return
	}
	replies := make(chan chunk, 1024)
	var works sync.WaitGroup
	defer works.Wait()
	works.Go(func() { l.receive(server, replies) })
	works.Go(func() { l.deliver(replies) })
	l.request(server)
	l.cut() // before the others are waited for
}

// join adds the server's end, unless the link was cut while that was dialed.
func (l *link) join(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

// request passes on what the client sends.
func (l *link) request(server net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buf)
		if n > 0 && l.thawed() {
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// receive takes what the server sends and notes when it came, so that a delay shifts the replies and does not
// space them out.
func (l *link) receive(server net.Conn, replies chan<- chunk) {
	defer close(replies)
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if n > 0 {
			select {
			case replies <- chunk{append([]byte(nil), buf[:n]...), l.proxy.due()}:
			case <-l.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// deliver hands the replies to the client, or loses them.
func (l *link) deliver(replies <-chan chunk) {
	defer l.cut()
	for c := range replies {
		if !l.until(c.due) || !l.thawed() || l.isCut() || l.proxy.drops() {
			return
		}
		if _, err := l.client.Write(c.bytes); err != nil {
			return
		}
	}
}

// until waits and reports false when the link was cut first.
func (l *link) until(due time.Time) bool {
	left := time.Until(due)
	if left <= 0 {
		return true
	}
	wait := time.NewTimer(left)
	defer wait.Stop()
	select {
	case <-l.done:
		return false
	case <-wait.C:
		return true
	}
}

// thawed waits for the end of a freeze, if there is one, and reports false when the link was cut first.
func (l *link) thawed() bool {
	for {
		thaw := l.proxy.frozen()
		if thaw == nil {
			return true
		}
		select {
		case <-l.done:
			return false
		case <-thaw:
		}
	}
}

// isCut matters to a reply that is to be lost: on a link that is cut it was lost already.
func (l *link) isCut() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// cut closes both ends.
func (l *link) cut() {
	l.mu.Lock()
	server, again := l.server, l.closed
	l.closed = true
	l.mu.Unlock()
	if again {
		return
	}
	close(l.done)
	_ = l.client.Close()
	if server != nil {
		_ = server.Close()
	}
}
