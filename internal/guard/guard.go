// Package guard keeps work that is not dispatch off the path of dispatch. Dispatch only puts observations into bounded queues, and requests
// only read copies in memory; everything else happens in goroutines of this package.
//
// Services: Catalog is a copy of the list of services of a ModelHub. UnavailableWorker marks services that nodes report as unavailable.
//
// Statistics: the Counter of each instance counts and publishes. Of all instances one leads (Leader); its Generator computes a snapshot from
// what all have published, and its Ejector ejects nodes that fail much more often than others. The Reader of each instance has a copy of
// the snapshot.
package guard
