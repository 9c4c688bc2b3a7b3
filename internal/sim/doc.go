// Package sim simulates a fleet: nodes with latencies and faults of their own, connected by a socket or called over HTTP,
// and conversations as load. The demo, the end-to-end tests and the load tests use it. It uses only the public wire
// protocol.
package sim
