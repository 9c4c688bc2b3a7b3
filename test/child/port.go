package child

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports come from below the range that the kernel uses for outgoing connections. A port from that range could be taken by an
// outgoing connection while its server is down, and a client that dials it repeatedly would at some time connect to itself.
const (
	minPort = 10_000
	maxPort = 32_767
)

// Port reserves a free TCP port for the test, also for the times at which no server listens there. The reservation is a UDP
// socket of the same number, which tests in other processes respect too, and which leaves no file behind.
func Port(tb testing.TB) int {
	tb.Helper()
	var last error
	for range 200 {
		port := minPort + rand.IntN(maxPort-minPort+1)
		reservation, err := net.ListenPacket("udp", Address(port)) //nolint:noctx // it does not wait
		if err != nil {
			last = err
			continue
		}
		probe, err := net.Listen("tcp", Address(port)) //nolint:noctx // it does not wait
		if err != nil {
			last = err
			_ = reservation.Close()
			continue
		}
		_ = probe.Close()
		tb.Cleanup(func() { _ = reservation.Close() })
		return port
	}
	tb.Fatal(fmt.Errorf("no free port on 127.0.0.1: %w", last))
	return 0
}

// Address returns the loopback address of a port, as host:port.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
