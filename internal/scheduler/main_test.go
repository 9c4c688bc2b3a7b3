package scheduler_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain sees to it that a scheduler that has stopped leaves no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
