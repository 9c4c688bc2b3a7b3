package dashtest

import "testing"

// TestPages visits every page in both languages and themes, in several widths and with every role: axe finds nothing, the console has no
// error and no policy is violated.
func TestPages(t *testing.T) {
	c := startCluster(t, 3)
	c.runProgram("pages.mjs", c.balancer.URL())
}

// TestHealing: a killed instance, an outage of Redis and a restart of all instances are shown, and the page recovers without being loaded
// again.
func TestHealing(t *testing.T) {
	c := startCluster(t, 3)
	c.runProgram("healing.mjs", c.balancer.URL())
}
