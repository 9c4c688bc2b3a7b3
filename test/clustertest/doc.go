// Package clustertest runs a whole cluster for tests: Redis in one of three topologies, instances of the scheduler as
// processes, load balancers before them, and drivers that produce load.
//
// A driver is a process of the test binary itself, so a package that starts drivers calls RunDriver first in its TestMain.
// There are drivers for sessions, HTTP callers, nodes with a socket and nodes with a callback. Each writes a journal of
// everything that it sees; the package journal describes the entries. A ScriptAuditor beside them watches the scripts that Redis
// runs.
//
// Package drill injects faults into such a cluster and checks the journals. bench/cluster measures, and interop runs
// programs in JavaScript, with the same processes.
//
// Methods that fail the test are called from the test's own goroutine.
package clustertest
