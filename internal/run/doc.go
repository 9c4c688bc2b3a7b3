// Package run has what goroutines and time need: waits that a context ends, backoff and jitter, groups of goroutines, shared deadlines and
// mutexes that report how long they were waited for. It imports nothing of this module: every other package may use it.
package run
