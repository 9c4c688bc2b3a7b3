package socket_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain sees to it that no connection leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
