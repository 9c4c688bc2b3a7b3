package socket_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// drainedConn is a connection that records how it was drained.
type drainedConn struct {
	done chan struct{}

	mu     sync.Mutex
	asked  []wire.GoAway
	closed time.Time
	code   wire.CloseCode
	detail string
}

func newDrainedConn() *drainedConn { return &drainedConn{done: make(chan struct{})} }

func (c *drainedConn) Send(f wire.Frame) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, f.(wire.GoAway))
	return true
}

func (c *drainedConn) Done() <-chan struct{} { return c.done }

func (c *drainedConn) Close(code wire.CloseCode, e *wire.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.code, c.detail = time.Now(), code, e.Detail
}

func TestGoAwayClosesConnectionsInTheSecondHalf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const within = 10 * time.Second
		conns := make([]*drainedConn, 20)
		for i := range conns {
			conns[i] = newDrainedConn()
		}
		start := time.Now()
		socket.GoAway(t.Context(), conns, "stopping", "resume", within)
		moments := make(map[time.Time]bool)
		for _, c := range conns {
			if len(c.asked) != 1 || c.asked[0].ReconnectMS != within.Milliseconds() || c.asked[0].Reason != "stopping" {
				t.Errorf("a connection was sent %+v", c.asked)
			}
			if after := c.closed.Sub(start); after < within/2 || after > within {
				t.Errorf("a connection was closed after %v", after)
			}
			if c.code != wire.CloseDraining || c.detail != "stopping: resume" {
				t.Errorf("a connection was closed with %d, %q", c.code, c.detail)
			}
			moments[c.closed] = true
		}
		if len(moments) < len(conns)/2 {
			t.Errorf("%d connections were closed at only %d moments", len(conns), len(moments))
		}
	})
}

func TestGoAwayReturnsWhenEveryConnectionHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := newDrainedConn()
		start := time.Now()
		time.AfterFunc(time.Second, func() { close(conn.done) })
		socket.GoAway(t.Context(), []*drainedConn{conn}, "stopping", "resume", 10*time.Second)
		if after := time.Since(start); after != time.Second {
			t.Errorf("GoAway returned after %v", after)
		}
	})
}

func TestGoAwayClosesConnectionsWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		conn := newDrainedConn()
		start := time.Now()
		socket.GoAway(ctx, []*drainedConn{conn}, "stopping", "resume", 10*time.Second)
		if after := time.Since(start); after != time.Second || conn.code != wire.CloseDraining {
			t.Errorf("GoAway returned after %v, and closed the connection with %d", after, conn.code)
		}
	})
}
