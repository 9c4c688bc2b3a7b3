package client_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain sees to it that no session leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
