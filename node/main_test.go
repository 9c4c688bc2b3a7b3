package node_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain sees to it that no node leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
