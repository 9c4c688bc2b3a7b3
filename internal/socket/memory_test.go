//go:build !race

// Under the race detector its own memory would be counted; `make allocs` runs these without it.

package socket_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/socket"
)

// TestIdleConnectionCostsLittle measures heap and stacks of the server's side for each of 1,000 connections that have sent and
// received something, with their readers.
func TestIdleConnectionCostsLittle(t *testing.T) {
	const conns, limit = 1000, 14 << 10
	s := startServer(t, socket.Options{}, nil)
	token := "Sec-WebSocket-Protocol: lingua.v1, lingua.token." + strings.Repeat("x", 4<<10) // must not be kept
	var clients [conns]*rawClient
	before := memoryInUse()
	for i := range clients {
		clients[i], _ = handshake(t, s.address, upgradeHeaders(token)...)
		clients[i].send(frame(fin|binaryFrame, "hello"))
		clients[i].expect(fin|binaryFrame, "hello")
		clients[i].r = nil // the client's memory is not the server's
	}
	each := (memoryInUse() - before) / conns
	t.Logf("%d bytes for each idle connection, heap and stack", each)
	if each > limit {
		t.Errorf("an idle connection costs %d bytes; want at most %d", each, limit)
	}
	runtime.KeepAlive(&clients)
}

// TestEndedConnectionCostsNothing: no memory of an ended connection is kept.
func TestEndedConnectionCostsNothing(t *testing.T) {
	const conns, limit = 1000, 3 << 10 // what the client's side and its clean-up cost
	s := startServer(t, socket.Options{}, nil)
	before := memoryInUse()
	for range conns {
		c := dial(t, s.address)
		conn := receive(t, s.accepted)
		conn.Abort()
		s.awaitDone(conn)
		s.awaitClose()
		c.r = nil
	}
	if each := (memoryInUse() - before) / conns; each > limit {
		t.Errorf("a connection that ended costs %d bytes; want at most %d", each, limit)
	}
}

// memoryInUse is the size of heap and stacks after a garbage collection.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
