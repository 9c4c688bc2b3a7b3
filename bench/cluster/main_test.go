package cluster

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain is also where an instance begins: it is a process of this binary.
func TestMain(m *testing.M) {
	if orders := os.Getenv(beInstance); orders != "" {
		serve(orders)
		return
	}
	goleak.VerifyTestMain(m)
}
