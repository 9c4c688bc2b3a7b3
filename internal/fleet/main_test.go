package fleet

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes sure that a Follower leaves nothing running behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
