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
	ask  func(ctx context.Context, nodes []core.NodeID, into []store.Occupancy) error
	turn chan struct{} // holds one while the store is asked

	mu   sync.Mutex
	next *look // that has not begun: whoever comes now joins it
}

func (l *looks) init(ask func(ctx context.Context, nodes []core.NodeID, into []store.Occupancy) error) {
	l.ask, l.turn = ask, make(chan struct{}, 1)
}

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
// who wait meanwhile.
func (l *looks) at(ctx context.Context, nodes []core.NodeID) (*look, error) {
	k := l.join(nodes)
	select {
	case l.turn <- struct{}{}:
		l.fly(ctx, k)
		<-l.turn
	case <-k.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return k, k.err
}

// join adds nodes to the look that comes next.
func (l *looks) join(nodes []core.NodeID) *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
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

// fly asks the store, unless somebody else has. It is whoever has the turn who does it, for all.
func (l *looks) fly(ctx context.Context, k *look) {
	l.mu.Lock()
	begun := k.begun
	if !begun {
		k.begun, l.next = true, nil // while one waits for its turn it is the next
	}
	l.mu.Unlock()
	if begun {
		return
	}
	k.full = make([]store.Occupancy, len(k.nodes))
	k.err = l.ask(context.WithoutCancel(ctx), k.nodes, k.full) // others wait for it too
	k.left = make([]int, len(k.nodes))
	for i, o := range k.full {
		if o.Free() {
			k.left[i] = o.Max - o.InFlight()
		}
	}
	close(k.done)
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
