// Package peers measures the scheduler against others that do something like it, on the same Redis in the same run.
// It is a module of its own, so that nobody who uses the scheduler has to download its peers.
package peers
