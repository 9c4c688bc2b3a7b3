package socket

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// Conn is one connection. One goroutine reads from it until Read returns an error; any may do the rest.
type Conn struct {
	hall    *Hub
	ws      *websocket.Conn // reads
	pipe    *pipe
	address string
	from    netip.Addr
	done    chan struct{}
	heard   atomic.Bool // something came since the watchdog looked
	watch   watch       // the watchdog's own
	message *[]byte     // what Read returned; its own
	counted bool        // it is among those of its address

	onPong atomic.Pointer[func(payload []byte)]

	mu      sync.Mutex
	users   int     // the network connection while it is open, the writer, the reader: who is still at it
	next    *outbox // waits; nil when there is nothing
	sources []source
	bye     *outbox // the last frames, after everything else
	flying  *outbox // is being written
	turn    uint    // counts writes, so that the watchdog sees one that is stuck
	writing bool    // there is a writer
	reading bool    // a Read is going on
	closing bool    // nothing more is taken to be sent
	parted  bool    // our close is written, and a Read that is going on waits for the other side's
	refused bool    // it is closed before it began, and nobody waits long for the other side's close
	cut     bool    // the network connection is closed, or is being
	end     CloseError
}

// Closed says how a connection ended.
type CloseError struct {
	Code   wire.CloseCode // CloseLost when no close was sent, CloseEmpty when one without a code was
	ByPeer bool           // the other side closed it
}

// Closes that are not among those of package wire: those which RFC 6455 names. The last two are never sent.
const (
	CloseProtocol wire.CloseCode = 1002 // what came is not WebSocket
	CloseNotUTF8  wire.CloseCode = 1007 // a text that is none
	CloseEmpty    wire.CloseCode = 1005 // a close came that had no code
	CloseLost     wire.CloseCode = 1006 // no close came at all
)

func (e *CloseError) Error() string {
	switch {
	case e.Code == CloseLost:
		return "the connection was lost"
	case e.ByPeer:
		return fmt.Sprintf("the other side closed the connection, with %d", e.Code)
	}
	return fmt.Sprintf("the connection was closed here, with %d", e.Code)
}

// RemoteAddr is the address of the other side, with its port.
func (c *Conn) RemoteAddr() string { return c.address }

// Done is closed when everything of the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Cut drops the connection at once, with what is queued.
func (c *Conn) Abort() { c.hangUp(CloseLost, true) }

// hangUp closes the network connection, for this reason if there was none yet. Reset, it also forgets what the kernel
// still has for one who does not read: it would keep that for minutes.
func (c *Conn) hangUp(why wire.CloseCode, reset bool) {
	c.mu.Lock()
	first := !c.cut
	c.cut = true
	if !c.closing {
		c.closing = true
		c.end = CloseError{Code: why}
	}
	c.mu.Unlock()
	if !first {
		return
	}
	if tcp, ok := c.pipe.Conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = c.pipe.Conn.Close() // it is given up, whatever it says
	c.leave()
}

// leave is called by each who was at the connection. The last one puts everything away.
func (c *Conn) leave() {
	c.mu.Lock()
	c.users--
	last := c.users == 0
	c.mu.Unlock()
	if !last {
		return
	}
	for _, o := range []*outbox{c.next, c.flying, c.bye} {
		if o != nil {
			o.free()
		}
	}
	c.next, c.flying, c.bye, c.sources = nil, nil, nil, nil
	_ = c.ws.CloseNow() // the library would else keep it for ever, for its finalizer
	c.hall.leave(c)
	c.hall.opts.Ended(c.end)
	close(c.done)
}
