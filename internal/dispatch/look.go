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
type looks struct {
	ask  func(nodes []core.NodeID, into []store.Occupancy) error // in a time of its own
	run  func(fn func())                                         // beside the caller
	turn chan struct{}                                           // holds one while the store is asked

	mu   sync.Mutex
	next *look // that has not begun: whoever comes now joins it
}

func (l *looks) init(run func(fn func()), ask func(nodes []core.NodeID, into []store.Occupancy) error) {
	l.ask, l.run, l.turn = ask, run, make(chan struct{}, 1)
}

// mostLooked is about how many nodes the store is asked of at once: a question is to be answered before anybody who waits
// for it has to give up.
const mostLooked = 512

// look is one question to the store, and the answer.
type look struct {
	at    map[core.NodeID]int
	nodes []core.NodeID
	begun bool
	done  chan struct{} // closed when the answer is there

	full []store.Occupancy
	err  error

	mu   sync.Mutex
	left []int // free slots that none of those who look has tried to get
}

// at looks at some nodes. The store is asked after this was called, so that what was free then is seen, and once for all
// who wait meanwhile. Who does not wait any more takes nobody with them.
func (l *looks) at(ctx context.Context, nodes []core.NodeID) (*look, error) {
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
func (l *looks) join(nodes []core.NodeID) *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil || len(l.next.nodes) >= mostLooked {
		l.next = &look{at: make(map[core.NodeID]int), done: make(chan struct{})}
	}
	k := l.next
	for _, id := range nodes {
		if _, there := k.at[id]; !there {
			k.at[id] = len(k.nodes)
			k.nodes = append(k.nodes, id)
		}
	}
	return k
}

// begin has the store asked, unless somebody has had, by whoever has the turn. It is over when the answer is there.
func (l *looks) begin(k *look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.begun {
		<-l.turn
		return
	}
	k.begun = true
	if l.next == k {
		l.next = nil
	}
	l.run(func() {
		defer func() { <-l.turn }()
		k.full, k.left = make([]store.Occupancy, len(k.nodes)), make([]int, len(k.nodes))
		k.err = l.ask(k.nodes, k.full)
		for i, o := range k.full {
			if o.Free() {
				k.left[i] = o.Max - o.InFlight()
			}
		}
		close(k.done)
	})
}

// of is how full a node was.
func (k *look) of(id core.NodeID) *store.Occupancy { return &k.full[k.at[id]] }

// claim reports whether a free slot of a node is left for the caller to try. As many may try as there are free slots.
func (k *look) claim(id core.NodeID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := k.at[id]
	if k.left[i] == 0 {
		return false
	}
	k.left[i]--
	return true
}

// giveBack lets somebody else try what the caller could not use, and nobody has taken.
func (k *look) giveBack(id core.NodeID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left[k.at[id]]++
}
