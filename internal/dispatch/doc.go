// Package dispatch is a job's life: reserve a slot, record who has the job, deliver it, hear its node's ACK
// and result, and move it elsewhere when something fails, until it has ended once.
//
// Two things are kept strictly apart. Leases account for slots; the job's record decides outcomes, by
// compare-and-set on who holds it. Everything this package keeps in memory (flights and their timers) is
// only the fast path: whatever is lost with the process is found again through the nodes' lease sets.
//
// It imports pick, fleet, store and core. How a job reaches a node is behind Transport, which it declares
// itself.
package dispatch
