package socket

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Drainable is a connection that can be asked to move to another instance.
type Drainable interface {
	// Send queues a frame. It reports false when the connection is closing.
	Send(f wire.Frame) bool
	// Done is closed when the connection has ended.
	Done() <-chan struct{}
	// Close closes the connection with an error frame.
	Close(code wire.CloseCode, e *wire.Error)
}

var _ Drainable = (*Conn)(nil)

// GoAway asks the other side of every connection to connect to another instance within a time, and closes the connections that
// are left, each at a random moment of the second half of that time, so that not all reconnect at once. advice tells a peer
// whose connection is closed what to do. GoAway returns when every connection has ended or was closed; when the context ends
// first, it closes those that are left at once.
func GoAway[C Drainable](ctx context.Context, conns []C, reason, advice string, within time.Duration) {
	var draining sync.WaitGroup
	for _, conn := range conns {
		conn.Send(wire.GoAway{Reason: reason, ReconnectMS: within.Milliseconds()})
		draining.Go(func() {
			timeout := time.NewTimer(within/2 + time.Duration(rand.Int64N(int64(within/2)+1)))
			defer timeout.Stop()
			select {
			case <-conn.Done():
			case <-timeout.C:
			case <-ctx.Done():
			}
			conn.Close(wire.CloseDraining, wire.Errorf(wire.Internal, "%s: %s", reason, advice))
		})
	}
	draining.Wait()
}
