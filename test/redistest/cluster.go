package redistest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Cluster is three primaries with a replica each.
//
// Its nodes require full coverage, which is the default of Redis: while any slot has no owner, every node refuses every
// command. That is the harder case for a client, and it makes cluster_state:ok mean that all slots are served.
type Cluster struct {
	tb    testing.TB
	nodes []*Server
	ids   map[*Server]string // the permanent id of each node
}

// StartCluster starts a cluster and returns when all six nodes agree that it is healthy and the replicas are in sync. A
// dead primary is replaced after two to three seconds.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, ids: make(map[*Server]string)}
	c.create()
	c.WaitHealthy(startTimeout)
	return c
}

// WithoutFailover makes no node take another one for dead, for tests in which all of them live, on a machine that may be slow. It returns
// c.
func (c *Cluster) WithoutFailover() *Cluster {
	c.tb.Helper()
	for _, node := range c.nodes {
		node.mustDo("CONFIG", "SET", "cluster-node-timeout", strconv.FormatInt(neverDead.Milliseconds(), 10))
	}
	return c
}

// URL returns the store URL, with the addresses of all nodes.
func (c *Cluster) URL() string { return "redis-cluster://" + addresses(c.nodes) }

// Servers returns all six nodes, primaries and replicas.
func (c *Cluster) Servers() []*Server { return slices.Clone(c.nodes) }

// Primaries returns the running nodes that own slots, ordered by their lowest slot.
func (c *Cluster) Primaries() []*Server {
	c.tb.Helper()
	claims := c.ownClaims()
	var primaries []slotClaim
	for _, own := range claims {
		own.slots = slices.DeleteFunc(own.slots, func(s slotRange) bool { return ownerOf(claims, s.from) != own.node })
		if len(own.slots) > 0 {
			primaries = append(primaries, own)
		}
	}
	slices.SortFunc(primaries, func(a, b slotClaim) int { return cmp.Compare(a.slots[0].from, b.slots[0].from) })
	nodes := make([]*Server, len(primaries))
	for i, p := range primaries {
		nodes[i] = p.node
	}
	return nodes
}

// Owner returns the running node that serves a slot, or nil while there is none.
func (c *Cluster) Owner(slot int) *Server {
	c.tb.Helper()
	return ownerOf(c.ownClaims(), slot)
}

// KillPrimary kills one of Primaries and returns it. After WaitHealthy it can be restarted, and becomes a replica.
func (c *Cluster) KillPrimary(i int) *Server {
	c.tb.Helper()
	primary := c.Primaries()[i]
	primary.Kill()
	return primary
}

// FailOver makes the replica of one of Primaries the owner of its slots while that primary runs, as an operator does before maintenance.
// It returns when the replica owns them.
func (c *Cluster) FailOver(i int) {
	c.tb.Helper()
	old := c.Primaries()[i]
	view, err := old.view()
	if err != nil {
		c.tb.Fatal(err)
	}
	replica := slices.IndexFunc(c.nodes, func(node *Server) bool { return view[c.ids[node]].primaryID == c.ids[old] })
	if replica < 0 {
		c.tb.Fatalf("%s has no replica", old.Addr())
	}
	c.nodes[replica].mustDo("CLUSTER", "FAILOVER")
	eventually(c.tb, startTimeout, func() error {
		if !slices.Contains(c.Primaries(), c.nodes[replica]) {
			return fmt.Errorf("%s has not taken over from %s", c.nodes[replica].Addr(), old.Addr())
		}
		return nil
	})
}

// WaitHealthy waits until all running nodes agree on the owner of each slot, all owners run, and all other nodes are
// replicas of an owner. It does not wait for nodes that were killed or stopped.
func (c *Cluster) WaitHealthy(timeout time.Duration) {
	c.tb.Helper()
	eventually(c.tb, timeout, c.checkHealth)
}

// slotClaim is the slots that a node claims to own.
type slotClaim struct {
	node  *Server
	epoch int64 // the claim with the higher epoch is valid
	slots []slotRange
}

// ownClaims asks the running nodes for their slots. A node may not know yet that it has lost them to another.
func (c *Cluster) ownClaims() []slotClaim {
	c.tb.Helper()
	var claims []slotClaim
	for _, node := range runningServers(c.nodes) {
		view, err := node.view()
		if err != nil {
			c.tb.Fatal(err)
		}
		if own := view[c.ids[node]]; own.primaryID == "" {
			claims = append(claims, slotClaim{node, own.epoch, own.slots})
		}
	}
	return claims
}

func ownerOf(claims []slotClaim, slot int) *Server {
	var best slotClaim
	for _, own := range claims {
		holds := slices.ContainsFunc(own.slots, func(s slotRange) bool { return s.from <= slot && slot <= s.to })
		if holds && (best.node == nil || own.epoch > best.epoch) {
			best = own
		}
	}
	return best.node
}

const (
	slotCount    = 16384
	primaryCount = 3
)

// create joins six servers to a cluster. The steps are those of `redis-cli --cluster create`, without a second program and
// without longer waits than each step needs.
func (c *Cluster) create() {
	c.tb.Helper()
	for range 2 * primaryCount {
		node := startServer(c.tb, clusterNode())
		c.nodes = append(c.nodes, node)
		c.ids[node] = fmt.Sprint(node.mustDo("CLUSTER", "MYID"))
	}
	for i, node := range c.nodes[:primaryCount] {
		node.mustDo("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)) // otherwise the nodes would have to resolve equal epochs
		node.mustDo("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slotCount/primaryCount), strconv.Itoa((i+1)*slotCount/primaryCount-1))
	}
	for _, node := range c.nodes[1:] {
		c.nodes[0].mustDo("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(node.port), strconv.Itoa(node.busPort))
	}
	eventually(c.tb, startTimeout, c.checkMembers)
	for i, node := range c.nodes[primaryCount:] {
		node.mustDo("CLUSTER", "REPLICATE", c.ids[c.nodes[i]])
	}
}

// clusterNode is the configuration of a node that detects a dead node after a second. As a replica it always takes part in
// elections, however long it was disconnected, and never moves to a primary without replicas.
func clusterNode() serverConfig {
	return serverConfig{isClusterNode: true, settings: append(replicationSettings(),
		setting{"cluster-announce-ip", "127.0.0.1"},
		setting{"cluster-node-timeout", "1000"},
		setting{"cluster-require-full-coverage", "yes"},
		setting{"cluster-replica-validity-factor", "0"},
		setting{"cluster-allow-replica-migration", "no"},
	)}
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.tb.Helper()
	slot, _ := runningServers(c.nodes)[0].mustDo("CLUSTER", "KEYSLOT", key).(int64)
	return int(slot)
}

// MoveSlot moves a slot with its keys to another primary while clients use it: they receive ASK during the move and MOVED
// afterwards. It returns when all nodes know the new owner.
func (c *Cluster) MoveSlot(slot int, to *Server) {
	c.tb.Helper()
	from := c.Owner(slot)
	switch {
	case from == nil || !slices.Contains(c.Primaries(), to):
		c.tb.Fatalf("slot %d can only move from one primary to another; call WaitHealthy first", slot)
	case from == to:
		return
	}
	number := strconv.Itoa(slot)
	to.mustDo("CLUSTER", "SETSLOT", number, "IMPORTING", c.ids[from])
	from.mustDo("CLUSTER", "SETSLOT", number, "MIGRATING", c.ids[to])
	for migrate(from, to, number) {
	}
	// The new owner is set first; otherwise the slot would have no owner for a moment.
	to.mustDo("CLUSTER", "SETSLOT", number, "NODE", c.ids[to])
	from.mustDo("CLUSTER", "SETSLOT", number, "NODE", c.ids[to])
	for _, node := range c.Primaries() {
		if node != from && node != to {
			node.mustDo("CLUSTER", "SETSLOT", number, "NODE", c.ids[to])
		}
	}
	eventually(c.tb, startTimeout, func() error { return c.checkOwner(slot, to) })
}

// migrate moves a batch of the keys of a slot, and reports whether there were any. A migrating slot receives no new keys at
// its old owner, so it becomes empty.
func migrate(from, to *Server, slot string) bool {
	from.tb.Helper()
	batch, _ := from.mustDo("CLUSTER", "GETKEYSINSLOT", slot, "20").([]any)
	if len(batch) == 0 {
		return false
	}
	command := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.port), "", "0", "4000", "KEYS"}
	for _, key := range batch {
		command = append(command, fmt.Sprint(key))
	}
	from.mustDo(command...)
	return true
}

// checkOwner returns an error if a running node does not know the owner of a slot.
func (c *Cluster) checkOwner(slot int, owner *Server) error {
	for _, node := range runningServers(c.nodes) {
		view, err := node.view()
		if err != nil {
			return err
		}
		if ownersIn(view)[slot] != c.ids[owner] {
			return fmt.Errorf("%s does not yet know that %s owns slot %d", node.Addr(), owner.Addr(), slot)
		}
	}
	return nil
}
