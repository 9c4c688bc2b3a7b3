//go:build !race

package drill

// raced says that the tests run under the race detector, and then the instances do.
const raced = false
