// Package core is the domain of the scheduler: nodes and what they can do, directions of translation,
// jobs and their state machine, leases, and the reasons for which things are refused.
//
// It is pure. Nothing here reads a clock, starts a goroutine, does I/O or knows of a store; every other
// internal package may import it and it imports none of them.
package core
