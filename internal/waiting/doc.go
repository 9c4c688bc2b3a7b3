// Package waiting lets requests wait for a free slot, in queues that all instances share.
//
// A request gets a Ticket and awaits an offer of a node's slot. It waits in a class, with all requests that the same nodes can serve. Which
// request is offered a slot is decided in the store, by the weights of tenants and the deadlines of their requests (package fairqueue);
// this package brings free slots to the queues and offers to the requests, on whichever instance they are:
//
//   - offerer offers slots that have become free, and sends offers to other instances;
//   - openClasses is the copy of the classes in which requests wait, from which Claims says whose slots are not for others;
//   - keeper runs while a request waits: heartbeats, waiters that the store has lost, and sweeps for slots that nobody was offered;
//   - snapshots and shareLog show who waits, and what tenants were granted.
//
// An offer is a hint. The slot is reserved by the request that uses it, and the ledger decides whether it is free.
package waiting
