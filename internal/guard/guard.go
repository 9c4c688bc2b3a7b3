// Package guard keeps work that is not dispatch off the path of dispatch. Dispatch only puts observations into bounded queues, and requests
// for statistics only read copies in memory; everything else happens in goroutines of this package.
//
// Statistics: the Counter of each instance counts and publishes. Of all instances one leads (Leader); its Generator computes a snapshot from
// what all have published. The Reader of each instance has a copy of it.
package guard
