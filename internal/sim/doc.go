// Package sim is a fleet that does not exist: nodes with latencies and faults of their own, connected by their socket or
// called over HTTP, and conversations that keep them busy. The demo, the end-to-end tests and the load tests use it. It
// speaks only the public wire protocol.
package sim
