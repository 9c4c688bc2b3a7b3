// Package journal writes the two logs of the fleet. The event log says what happens to nodes; the audit log says who changed what, and
// which requests were denied, in the store, which all instances share, and as JSON lines in a file. Recording never waits: entries are
// queued, and written in the background. Log reads and writes one of them in a store. What is recorded
// in the audit log is decided by package server.
package journal
