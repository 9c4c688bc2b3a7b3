//go:build !race

package redisstore_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/test/storetest"
)

// TestSentinelWithEveryReplyLostOnce repeats every write. TestStoreUsesOnlyItsCommands runs the suite on a single server.
func TestSentinelWithEveryReplyLostOnce(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t).WithoutFailover()
	exerciseAsUser(t, s.URL(), s.Servers(), true)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t).WithoutFailover()
	exerciseAsUser(t, c.URL(), c.Servers(), false)
}

// exerciseAsUser runs the suite as a Redis user that may run only the commands of commandsFile: nothing is refused on any server.
func exerciseAsUser(t *testing.T, url string, servers []*redistest.Server, repeats bool) {
	t.Helper()
	for _, s := range servers {
		addUser(t, s, listedCommands(t))
	}
	t.Run("suite", func(t *testing.T) { storetest.Exercise(t, backend(asUser(url), repeats)) })
	for _, s := range servers {
		wantNothingRefused(t, s)
	}
}
