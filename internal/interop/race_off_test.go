//go:build !race

package interop

// raced: the instances are built with the race detector if the tests are.
const raced = false
