package child

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports are taken from below the range that the kernel gives to outgoing connections. A port from that range could go to
// somebody's connection while its server is down, and a client that dials it again and again would in the end be connected
// to itself.
const (
	lowestPort  = 10_000
	highestPort = 32_767
)

// Port finds a port that is free for TCP and keeps it for the test, also while nobody listens there. The claim is the UDP
// socket of the same number: it keeps off the tests of other processes as well, and it leaves nothing behind.
func Port(tb testing.TB) int {
	tb.Helper()
	var last error
	for range 200 {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		claim, err := net.ListenPacket("udp", Address(port)) //nolint:noctx // it does not wait
		if err != nil {
			last = err
			continue
		}
		probe, err := net.Listen("tcp", Address(port)) //nolint:noctx // it does not wait
		if err != nil {
			last = err
			_ = claim.Close()
			continue
		}
		_ = probe.Close()
		tb.Cleanup(func() { _ = claim.Close() })
		return port
	}
	tb.Fatal(fmt.Errorf("no free port on 127.0.0.1: %w", last))
	return 0
}

// Address is a port of this machine.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
