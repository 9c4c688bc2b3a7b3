package child

import "testing"

func TestClaimedPortsDiffer(t *testing.T) {
	t.Parallel()
	seen := make(map[int]bool)
	for range 100 {
		port := Port(t)
		if seen[port] || port < lowestPort || port > highestPort {
			t.Fatalf("port %d", port)
		}
		seen[port] = true
	}
}
