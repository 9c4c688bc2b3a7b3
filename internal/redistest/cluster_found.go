package redistest

import (
	"fmt"
	"strconv"
)

const (
	slots     = 16384
	primaries = 3
)

// found makes one cluster of six strangers. The steps are those of `redis-cli --cluster create`; taken here,
// they need no second program, and wait no longer than each step needs.
func (c *Cluster) found() {
	c.tb.Helper()
	for range 2 * primaries {
		node := build(c.tb, clusterNode())
		c.nodes = append(c.nodes, node)
		c.ids[node] = fmt.Sprint(node.must("CLUSTER", "MYID"))
	}
	for i, node := range c.nodes[:primaries] {
		node.must("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)) // or they would have to settle who is first
		node.must("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/primaries), strconv.Itoa((i+1)*slots/primaries-1))
	}
	for _, node := range c.nodes[1:] {
		c.nodes[0].must("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(node.port), strconv.Itoa(node.bus))
	}
	eventually(c.tb, startTimeout, c.acquainted)
	for i, node := range c.nodes[primaries:] {
		node.must("CLUSTER", "REPLICATE", c.ids[c.nodes[i]])
	}
}

// clusterNode is a node that notices a death after a second. As a replica it always stands for election,
// however long it was cut off, and never goes over to another primary that has none.
func clusterNode() blueprint {
	return blueprint{clustered: true, settings: append(replicated(),
		setting{"cluster-announce-ip", "127.0.0.1"},
		setting{"cluster-node-timeout", "1000"},
		setting{"cluster-require-full-coverage", "yes"},
		setting{"cluster-replica-validity-factor", "0"},
		setting{"cluster-allow-replica-migration", "no"},
	)}
}
