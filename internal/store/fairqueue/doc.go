// Package fairqueue decides which of many waiting requests gets a slot that has become free. It is the queue of one pool: the memory store
// holds it in a process, and the scripts of the Redis store do the same in Lua. A test compares the two step by step.
//
// A request waits in a class: requests that the same nodes can serve. The requests of a tenant in a class are a flow, ordered by their
// deadlines. Flows are served by start-time fair queueing: the flow with the lowest tag is next, and a grant raises the tag of the tenant
// by Unit / weight, in every class that could have used the slot. Of these classes the tenant is served in the one where its earliest
// deadline is: of MaxUrgent of them, if it waits in more, which are the first ones of those that the caller asks for. A caller that changes
// their order from call to call serves all of them. A flow that begins to wait starts at the virtual time of its class, so nobody saves up
// shares while nothing is wanted, and after what its tenant was granted a moment ago, so nobody gains by changing between classes.
//
// Classes have different nodes, so they advance at different rates. The tags of a class are compared with those of another after adding
// the offset of the class, which leads from the virtual time of the class to that of the pool. A class that falls behind the pool by more
// than MaxLag grants has its offset raised: the order within the class does not change.
//
// A grant is an offer: the instance of the waiter reserves a slot in the ordinary way and then removes the waiter. An offer that does not
// lead to a slot, or that is not answered within OfferMS, is taken back: the waiter gets its place again, and its tenant is not charged.
//
// Times are milliseconds on the clock of the store. The package does no I/O, starts no goroutine and has no lock.
package fairqueue
