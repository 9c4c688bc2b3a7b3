// Package stats counts what happens on this instance and shows what happens on all. Dispatch only puts observations into bounded queues,
// and requests only read copies in memory; everything else happens in goroutines of this package.
//
// The Counter of each instance counts and publishes. Of all instances one leads (Leader); its Generator computes a snapshot from what all
// have published. The Reader of each instance has a copy of the snapshot. NodeTable is the table of nodes that people search, and JobRing
// the last jobs and decisions of this instance.
package stats
