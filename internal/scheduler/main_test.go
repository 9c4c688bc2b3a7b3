package scheduler_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain sees to it that a scheduler that has stopped leaves no goroutine behind.
func TestMain(m *testing.M) {
	// A cluster's client that was just closed may still be about to look at the topology, for a second.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}
