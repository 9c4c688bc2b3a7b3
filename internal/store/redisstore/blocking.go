package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// blockingReads ends the reads that wait for messages and for changes when Redis may have another primary.
//
// Such a read waits for seconds on a connection of its own, and nothing ends it by itself: a primary that was replaced as planned accepts
// commands for seconds, and one that hangs sends nothing. The connection of all other commands is closed then: by the client, because the
// sentinels name another primary or a ping is not answered, or by the server. So no read outlives a connection of other commands.
type blockingReads struct {
	epoch atomic.Pointer[connectionEpoch] // the current one
}

// connectionEpoch is the time in which no connection of ordinary commands was closed.
type connectionEpoch struct {
	ctx context.Context // ends with the epoch
	end context.CancelFunc
}

func newBlockingReads() *blockingReads {
	b := new(blockingReads)
	b.epoch.Store(newConnectionEpoch())
	return b
}

func newConnectionEpoch() *connectionEpoch {
	ctx, end := context.WithCancel(context.Background()) //nolint:forbidigo // connections are closed after every other context has ended
	return &connectionEpoch{ctx, end}
}

// readContext is the context of a blocking read. The connection that is dialled for the read finds isBlockingRead in it. It has no deadline
// of its own: the client would wait for that and for nothing else.
type readContext struct{ context.Context }

type isBlockingRead struct{}

// Deadline implements context.Context.
func (readContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (c readContext) Value(key any) any {
	if key == (isBlockingRead{}) {
		return true
	}
	return c.Context.Value(key)
}

// errInterrupted says that a blocking read was ended because Redis may have another primary.
var errInterrupted = errors.New("a connection was closed, so there may be another primary")

// do sends a blocking read and returns its reply.
func (b *blockingReads) do(ctx context.Context, redis rueidis.Client, read rueidis.Completed) (rueidis.RedisResult, error) {
	epoch := b.epoch.Load() // before the client chooses a connection
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(epoch.ctx, cancel)
	defer stop()
	reply := redis.Do(readContext{waiting}, read)
	if errors.Is(reply.NonRedisError(), context.Canceled) && ctx.Err() == nil {
		return reply, fmt.Errorf("%w: %w", store.ErrDown, errInterrupted)
	}
	return reply, nil
}

// dial opens a connection for the client, as it would without this function.
func (b *blockingReads) dial(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (conn net.Conn, err error) {
	if config != nil {
		conn, err = (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", address)
	} else {
		conn, err = dialer.DialContext(ctx, "tcp", address)
	}
	if err != nil || ctx.Value(isBlockingRead{}) != nil {
		return conn, err
	}
	return &ordinaryConn{Conn: conn, reads: b}, nil
}

// ordinaryConn is a connection of ordinary commands.
type ordinaryConn struct {
	net.Conn
	reads  *blockingReads
	active atomic.Bool // something was received, and it was not closed
}

// Read implements net.Conn.
func (c *ordinaryConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.active.Load() {
		c.active.Store(true)
	}
	return n, err
}

// Close implements net.Conn. A connection on which nothing was received says nothing: a server that hangs is tried again and again.
func (c *ordinaryConn) Close() error {
	err := c.Conn.Close()
	if c.active.Swap(false) {
		c.reads.epoch.Swap(newConnectionEpoch()).end()
	}
	return err
}
