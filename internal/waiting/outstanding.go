package waiting

import (
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
)

const (
	// offerSettled is after what time an offer was used or will not be used. The node is probed then: the offer may have been lost.
	offerSettled = (fairqueue.OfferMS + 50) * time.Millisecond
	// maxOutstanding is how many nodes are remembered because of their offers. A sweep finds the slots of others.
	maxOutstanding = 4096
)

// outstandingOffers remembers the nodes whose slots this instance has offered, until the offers were used or not.
type outstandingOffers struct {
	count atomic.Int64

	mu    run.Mutex
	nodes map[offeredNode]settleTimes
}

// offeredNode is a node whose slots were offered to requests in the queue of a pool.
type offeredNode struct {
	pool core.PoolID
	node *fleet.Node
}

// settleTimes are the times at which the first and the last of the offers of a node are settled.
type settleTimes struct{ first, last time.Time }

// add remembers a node until a time.
func (s *outstandingOffers) add(pool core.PoolID, n *fleet.Node, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := offeredNode{pool, n}
	known, there := s.nodes[key]
	switch {
	case !there && len(s.nodes) == maxOutstanding:
		return
	case !there:
		known = settleTimes{until, until}
	case until.Before(known.first):
		known.first = until
	case until.After(known.last):
		known.last = until
	}
	s.nodes[key] = known
	s.count.Store(int64(len(s.nodes)))
}

// addAll remembers the nodes of several pools until a time.
func (s *outstandingOffers) addAll(nodes map[core.PoolID][]*fleet.Node, until time.Time) {
	for pool, list := range nodes {
		for _, n := range list {
			s.add(pool, n, until)
		}
	}
}

// takeDue returns the nodes that have offers which are settled, by pool.
func (s *outstandingOffers) takeDue(now time.Time) map[core.PoolID][]*fleet.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := make(map[core.PoolID][]*fleet.Node)
	for key, times := range s.nodes {
		if times.first.After(now) {
			continue
		}
		due[key.pool] = append(due[key.pool], key.node)
		if times.last.After(now) {
			s.nodes[key] = settleTimes{times.last, times.last}
		} else {
			delete(s.nodes, key)
		}
	}
	s.count.Store(int64(len(s.nodes)))
	return due
}
