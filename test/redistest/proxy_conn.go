package redistest

import (
	"context"
	"net"
	"sync"
	"time"
)

// proxyConn is one connection through the proxy.
type proxyConn struct {
	proxy  *Proxy
	client net.Conn
	done   chan struct{} // closed by close

	mu     sync.Mutex
	server net.Conn // nil until the target has accepted
	closed bool
}

// replyChunk is bytes that the server sent together, and when they may be passed on.
type replyChunk struct {
	bytes []byte
	due   time.Time
}

// run forwards bytes in both directions and returns when the connection is closed.
func (c *proxyConn) run(ctx context.Context) {
	defer c.close()
	dialer := net.Dialer{Timeout: answerTimeout}
	server, err := dialer.DialContext(ctx, "tcp", c.proxy.target)
	if err != nil || !c.attach(server) {
		return
	}
	replies := make(chan replyChunk, 1024)
	var works sync.WaitGroup
	defer works.Wait()
	works.Go(func() { c.readReplies(server, replies) })
	works.Go(func() { c.writeReplies(replies) })
	c.copyRequests(server)
	c.close() // ends the other two goroutines
}

// attach adds the connection to the server, unless the client's was closed while that was dialed.
func (c *proxyConn) attach(server net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = server.Close()
		return false
	}
	c.server = server
	return true
}

// copyRequests forwards what the client sends.
func (c *proxyConn) copyRequests(server net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.client.Read(buf)
		if n > 0 && c.waitUnfrozen() {
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readReplies reads what the server sends, with the arrival time of each chunk, so that a delay shifts the replies and does
// not add up.
func (c *proxyConn) readReplies(server net.Conn, replies chan<- replyChunk) {
	defer close(replies)
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if n > 0 {
			select {
			case replies <- replyChunk{append([]byte(nil), buf[:n]...), c.proxy.arrivalTime()}:
			case <-c.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// writeReplies passes the replies to the client, or drops them.
func (c *proxyConn) writeReplies(replies <-chan replyChunk) {
	defer c.close()
	for chunk := range replies {
		if !c.waitUntil(chunk.due) || !c.waitUnfrozen() || c.isClosed() || c.proxy.takeDrop() {
			return
		}
		if _, err := c.client.Write(chunk.bytes); err != nil {
			return
		}
	}
}

// waitUntil waits until a time. It returns false if the connection was closed first.
func (c *proxyConn) waitUntil(due time.Time) bool {
	left := time.Until(due)
	if left <= 0 {
		return true
	}
	wait := time.NewTimer(left)
	defer wait.Stop()
	select {
	case <-c.done:
		return false
	case <-wait.C:
		return true
	}
}

// waitUnfrozen waits for the end of a freeze, if there is one. It returns false if the connection was closed first.
func (c *proxyConn) waitUnfrozen() bool {
	for {
		thaw := c.proxy.frozen()
		if thaw == nil {
			return true
		}
		select {
		case <-c.done:
			return false
		case <-thaw:
		}
	}
}

// isClosed reports whether the connection is closed. A reply on a closed connection is lost anyway and must not count as
// dropped.
func (c *proxyConn) isClosed() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// close closes both sides.
func (c *proxyConn) close() {
	c.mu.Lock()
	server, again := c.server, c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return
	}
	close(c.done)
	_ = c.client.Close()
	if server != nil {
		_ = server.Close()
	}
}
