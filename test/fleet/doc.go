// Package fleet has the nodes and sessions with which tests, drills and benchmarks use a scheduler: nodes that receive their jobs over
// HTTP, over a WebSocket or, without a network, from the scheduler in the same process, and sessions that speak. What commands of the
// program use too is in package lab.
package fleet
