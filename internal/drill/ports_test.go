package drill

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports are taken from below the range that the kernel gives to outgoing connections, or one could go to somebody's
// connection while its instance is down.
const lowestPort, highestPort = 10_000, 32_767

// claimPort finds a port that is free for TCP and keeps it for the test, also while nobody listens there. The claim is
// the UDP socket of the same number, as redistest does it, so that they keep off each other.
func claimPort(tb testing.TB) int {
	tb.Helper()
	var last error
	for range 200 {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		claim, err := net.ListenPacket("udp", address(port))
		if err != nil {
			last = err
			continue
		}
		probe, err := net.Listen("tcp", address(port))
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

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
