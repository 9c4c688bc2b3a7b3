// Package bus connects the instances that share a store: presence, inboxes, dead letters, and the takeover of what a dead instance
// leaves behind.
//
// A message is a hint that makes things fast. Nothing depends on its arrival: what must not be lost is in the store, and every
// reader of a message also looks there from time to time. So a message has a time to live, may arrive twice, and may be lost
// with the instance that it was for.
//
// An instance is one incarnation of one process. It is present for as long as it renews its presence, and stops granting slots
// well before the others may declare it dead.
package bus
