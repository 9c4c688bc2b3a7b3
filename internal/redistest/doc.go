// Package redistest runs real Redis for tests: a server, a primary with replicas and sentinels, a cluster, and a
// proxy that spoils the connection to one of them. Every process listens on a free loopback port, keeps its files
// in the test's temporary directory and ends with the test. Nothing is shared between tests.
//
// It needs redis-server 7.0 or newer. A test without it fails: a store that was not tested must not look tested.
//
// Methods that cannot go on fail the test, so they are called from the test's own goroutine. Do returns its error
// and may be called from anywhere.
package redistest
