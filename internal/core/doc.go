// Package core is the domain of the scheduler: nodes and their capabilities, directions of translation, jobs and their
// state machine, leases, and the reasons of refusals and failures.
//
// It is pure: nothing here reads a clock, starts a goroutine, does I/O or depends on a store. Every other internal package
// may import it, and it imports none of them.
package core
