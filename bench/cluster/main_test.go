package cluster

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs an instance if this process was started as one.
func TestMain(m *testing.M) {
	if orders := os.Getenv(instanceVariable); orders != "" {
		serve(orders)
		return
	}
	goleak.VerifyTestMain(m)
}
