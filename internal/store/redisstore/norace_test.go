//go:build !race

package redisstore_test

// parallelTests is how many tests run beside each other.
const parallelTests = "48"
