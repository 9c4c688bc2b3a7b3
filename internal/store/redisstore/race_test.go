//go:build race

package redisstore_test

// parallelTests is how many tests run beside each other. The race detector makes each of them need the processors for far longer, and what
// waits for the clock of Redis must not wait for a processor.
const parallelTests = "12"
