// Package redistest runs real Redis for tests: a server, a primary with replicas and sentinels, a cluster, and a proxy that
// injects faults into the connection to one of them. Every process listens on a free loopback port, keeps its files in the
// test's temporary directory and ends with the test. Nothing is shared between tests.
//
// It needs redis-server 7.0 or newer. Without it the test fails, and is not skipped: a store that was not tested must not
// look tested. Only `make unit` (go test -short), which says so, leaves out the tests that start Redis.
//
// Methods that fail the test are called from the test's own goroutine. Do returns its error and can be called from any
// goroutine.
package redistest

// Functions of goroutines that a closed client of a cluster may leave behind for some seconds. Tests that look for leaked goroutines ignore
// them.
const (
	TopologyTimer      = "github.com/redis/rueidis.(*call).DelayDo.func1"           // would have read the topology again
	RemovedConnections = "github.com/redis/rueidis.(*clusterClient)._refresh.func2" // closes the connections to servers that left
)
