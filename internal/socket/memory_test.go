//go:build !race

// Under the race detector its own memory would be counted; `make allocs` runs these without it.

package socket_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/socket"
)

// TestAnIdleConnectionCostsLittle measures heap and stacks of the server's side for each of 1,000 connections, all of
// which have said and heard something, and their readers.
func TestAnIdleConnectionCostsLittle(t *testing.T) {
	const many, most = 1000, 14 << 10
	p := open(t, socket.Options{}, nil)
	token := "Sec-WebSocket-Protocol: lingua.v1, lingua.token." + strings.Repeat("x", 4<<10) // must not be kept
	var peers [many]*peer
	before := footprint()
	for i := range peers {
		peers[i], _ = handshake(t, p.address, usual(token)...)
		peers[i].send(frame(fin|binaryFrame, "hello"))
		peers[i].expect(fin|binaryFrame, "hello")
		peers[i].r = nil // the client's memory is not the server's
	}
	each := (footprint() - before) / many
	t.Logf("%d bytes for each idle connection, heap and stack", each)
	if each > most {
		t.Errorf("an idle connection costs %d bytes; want at most %d", each, most)
	}
	runtime.KeepAlive(&peers)
}

// TestAConnectionThatEndedCostsNothing: nothing of it is kept.
func TestAConnectionThatEndedCostsNothing(t *testing.T) {
	const many, most = 1000, 3 << 10 // what the client's side and its clean-up cost
	p := open(t, socket.Options{}, nil)
	before := footprint()
	for range many {
		c := dial(t, p.address)
		conn := soon(t, p.opened)
		conn.Abort()
		p.gone(conn)
		p.closed()
		c.r = nil
	}
	if each := (footprint() - before) / many; each > most {
		t.Errorf("a connection that ended costs %d bytes; want at most %d", each, most)
	}
}

// footprint is what heap and stacks hold after a collection.
func footprint() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
