package redistest

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// Cluster is three primaries with a replica each.
//
// Its nodes ask for full coverage, as Redis does by default: while any slot has no owner, every node refuses every
// command. That is the harder case for a client, and it makes cluster_state:ok mean that all slots are served.
type Cluster struct {
	tb    testing.TB
	nodes []*Server
	ids   map[*Server]string // what a node calls itself, for life
}

// StartCluster returns when all six nodes agree that all is well and the replicas are in sync. A primary that dies
// is replaced about two to three seconds later.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, ids: make(map[*Server]string)}
	c.found()
	c.WaitHealthy(startTimeout)
	return c
}

// URL names all nodes.
func (c *Cluster) URL() string { return "redis-cluster://" + addresses(c.nodes) }

// Servers are all six nodes, whoever is which.
func (c *Cluster) Servers() []*Server { return slices.Clone(c.nodes) }

// Primaries are the running nodes that own slots, by their lowest slot.
func (c *Cluster) Primaries() []*Server {
	c.tb.Helper()
	claims := c.claims()
	var primaries []claim
	for _, own := range claims {
		own.spans = slices.DeleteFunc(own.spans, func(s span) bool { return ownerOf(claims, s.from) != own.node })
		if len(own.spans) > 0 {
			primaries = append(primaries, own)
		}
	}
	slices.SortFunc(primaries, func(a, b claim) int { return cmp.Compare(a.spans[0].from, b.spans[0].from) })
	nodes := make([]*Server, len(primaries))
	for i, p := range primaries {
		nodes[i] = p.node
	}
	return nodes
}

// Owner is the running node that serves a slot, or nil while there is none.
func (c *Cluster) Owner(slot int) *Server {
	c.tb.Helper()
	return ownerOf(c.claims(), slot)
}

// KillPrimary kills one of Primaries and returns it. Restart it after WaitHealthy, and it comes back as a replica.
func (c *Cluster) KillPrimary(i int) *Server {
	c.tb.Helper()
	primary := c.Primaries()[i]
	primary.Kill()
	return primary
}

// WaitHealthy waits until all running nodes agree on who owns which slot, all owners run, and all other nodes
// follow one of them. A node that was killed or stopped is not waited for.
func (c *Cluster) WaitHealthy(timeout time.Duration) {
	c.tb.Helper()
	eventually(c.tb, timeout, c.missing)
}

// claim is what a node says of itself.
type claim struct {
	node  *Server
	epoch int64 // of two who claim the same slot, the one with the higher is right
	spans []span
}

// claims asks the running nodes. One may have lost its slots to another and not know it yet.
func (c *Cluster) claims() []claim {
	c.tb.Helper()
	var claims []claim
	for _, node := range atWork(c.nodes) {
		view, err := node.view()
		if err != nil {
			c.tb.Fatal(err)
		}
		if own := view[c.ids[node]]; own.primaryID == "" {
			claims = append(claims, claim{node, own.epoch, own.spans})
		}
	}
	return claims
}

func ownerOf(claims []claim, slot int) *Server {
	var best claim
	for _, own := range claims {
		holds := slices.ContainsFunc(own.spans, func(s span) bool { return s.from <= slot && slot <= s.to })
		if holds && (best.node == nil || own.epoch > best.epoch) {
			best = own
		}
	}
	return best.node
}
