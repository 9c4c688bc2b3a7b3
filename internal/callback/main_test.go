package callback_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that no goroutine leaks.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
