//go:build !race

package redisstore_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store/storetest"
)

// TestSentinelWithEveryReplyLostOnce repeats every write. TestStoreUsesOnlyItsCommands runs the suite on a single server.
func TestSentinelWithEveryReplyLostOnce(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, backend(redistest.StartSentinel(t).WithoutFailover().URL(), true))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, backend(redistest.StartCluster(t).WithoutFailover().URL(), false))
}
