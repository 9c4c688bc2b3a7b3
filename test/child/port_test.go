package child

import "testing"

func TestReservedPortsDiffer(t *testing.T) {
	t.Parallel()
	seen := make(map[int]bool)
	for range 100 {
		port := Port(t)
		if seen[port] || port < minPort || port > maxPort {
			t.Fatalf("port %d was reserved twice or is outside of [%d, %d]", port, minPort, maxPort)
		}
		seen[port] = true
	}
}
