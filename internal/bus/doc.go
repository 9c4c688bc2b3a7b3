// Package bus is how instances that share a store know and reach each other: presence, inboxes, dead letters, and what
// becomes of what an instance leaves behind.
//
// A letter is a hint that makes things fast. Nothing depends on its arrival: what must not be lost is in the store, and
// whoever waits for word of it looks there in the end. So a letter has a time after which nobody needs it, may come twice,
// and may be lost with the instance it was for.
//
// An instance is one life of one process. It is present for as long as it says so; it stops granting well before the
// others may take it for gone.
package bus
