package socket

import (
	"net"
	"sync/atomic"
	"time"
)

// pipe is the network connection as the library sees it: it reads from it, but what it writes is queued with the rest.
type pipe struct {
	net.Conn
	c      *Conn
	early  []byte      // came together with the handshake
	broken atomic.Bool // it cannot be read from any more
}

// Read implements net.Conn. Whatever comes is a sign of life.
func (p *pipe) Read(b []byte) (int, error) {
	if len(p.early) > 0 {
		n := copy(b, p.early)
		if p.early = p.early[n:]; len(p.early) == 0 {
			p.early = nil
		}
		return n, nil
	}
	n, err := p.Conn.Read(b)
	if n > 0 {
		p.c.heard.Store(true)
	}
	if err != nil {
		p.broken.Store(true)
	}
	return n, err
}

// Write takes one control frame from the library. Answers to pings are queued. Its closes are dropped: Read learns
// from its error of each, and closes in our own manner, with an error frame first.
func (p *pipe) Write(b []byte) (int, error) {
	if b[0] == final|opPong {
		p.c.enqueue(opPong, b[2:])
	}
	return len(b), nil
}

// Close is called by the library when it has received a close, or a control frame did not come to its end. What is
// queued must still be written, so only reading ends.
func (p *pipe) Close() error {
	p.broken.Store(true)
	return p.SetReadDeadline(time.Unix(1, 0))
}
