// Package redisstore shares the truth between any number of schedulers: it keeps it in Redis (standalone, Sentinel
// or Cluster), by the same promises as memstore and through the same suite.
//
// Everything about a node lies in one slot and so does everything about a job, so that each step is one script or
// one command, and atomic; no step needs two slots at once. What must be known across slots (who there is, what has
// changed) travels on keys of its own, written afterwards: whatever is lost between the two is found again by the
// next heartbeat or the next comparison. docs/redis.md lists the keys and the scripts.
//
// Locks: none is held while Redis is asked.
package redisstore
