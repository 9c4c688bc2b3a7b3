package dispatch

import (
	"context"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// looks is how full nodes are, asked for all who want to know at once. Before anybody is refused, every node that could do
// the job is looked at. When the fleet is full, everybody is about to be refused and tries again soon: if each asked for
// itself, the store would have the more to do the less there is to give, and would not come out of it again.
type prober struct {
	ask  func(nodes []core.NodeID, into []store.Occupancy) error // in a time of its own
	run  func(fn func())                                         // beside the caller
	turn chan struct{}                                           // holds one while the store is asked

	mu   sync.Mutex
	next *probeBatch // that has not begun: whoever comes now joins it
}

func (l *prober) init(run func(fn func()), ask func(nodes []core.NodeID, into []store.Occupancy) error) {
	l.ask, l.run, l.turn = ask, run, make(chan struct{}, 1)
}

// mostLooked is about how many nodes the store is asked of at once: a question is to be answered before anybody who waits
// for it has to give up.
const mostLooked = 512

// look is one question to the store, and the answer.
type probeBatch struct {
	index    map[core.NodeID]int
	nodes []core.NodeID
	sent bool
	done  chan struct{} // closed when the answer is there

	occupancy []store.Occupancy
	err  error

	mu   sync.Mutex
	unclaimed []int // free slots that none of those who look has tried to get
}

// at looks at some nodes. The store is asked after this was called, so that what was free then is seen, and once for all
// who wait meanwhile. Who does not wait any more takes nobody with them.
func (l *prober) read(ctx context.Context, nodes []core.NodeID) (*probeBatch, error) {
	k := l.join(nodes)
	select {
	case l.turn <- struct{}{}:
		l.begin(k)
	case <-k.done:
	case <-ctx.Done():
	}
	select {
	case <-k.done:
		return k, k.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join adds nodes to the look that comes next.
func (l *prober) join(nodes []core.NodeID) *probeBatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil || len(l.next.nodes) >= mostLooked {
		l.next = &probeBatch{index: make(map[core.NodeID]int), done: make(chan struct{})}
	}
	k := l.next
	for _, id := range nodes {
		if _, there := k.index[id]; !there {
			k.index[id] = len(k.nodes)
			k.nodes = append(k.nodes, id)
		}
	}
	return k
}

// begin has the store asked, unless somebody has had, by whoever has the turn. It is over when the answer is there.
func (l *prober) begin(k *probeBatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.sent {
		<-l.turn
		return
	}
	k.sent = true
	if l.next == k {
		l.next = nil
	}
	l.run(func() {
		defer func() { <-l.turn }()
		k.occupancy, k.unclaimed = make([]store.Occupancy, len(k.nodes)), make([]int, len(k.nodes))
		k.err = l.ask(k.nodes, k.occupancy)
		for i, o := range k.occupancy {
			if o.Free() {
				k.unclaimed[i] = o.Max - o.InFlight()
			}
		}
		close(k.done)
	})
}

// of is how full a node was.
func (k *probeBatch) occupancyOf(id core.NodeID) *store.Occupancy { return &k.occupancy[k.index[id]] }

// claim reports whether a free slot of a node is left for the caller to try. As many may try as there are free slots.
func (k *probeBatch) claimSlot(id core.NodeID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := k.index[id]
	if k.unclaimed[i] == 0 {
		return false
	}
	k.unclaimed[i]--
	return true
}

// giveBack lets somebody else try what the caller could not use, and nobody has taken.
func (k *probeBatch) unclaimSlot(id core.NodeID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unclaimed[k.index[id]]++
}
