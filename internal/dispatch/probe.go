package dispatch

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// prober reads how full nodes are, with one store call for all requests that ask at the same time. Before a request is
// refused, every capable node is probed. When the fleet is full, many requests are about to be refused and come back soon: if
// each probed on its own, the store would have more to do the fewer slots are free, and would not recover.
type prober struct {
	probe func(nodes []core.NodeID, into []store.Occupancy) error // with a deadline of its own
	start func(fn func())                                         // runs fn in the background
	busy  chan struct{}                                           // holds one element while the store is asked

	mu   run.Mutex
	next *probeBatch // not sent yet: new requests join it
}

func newProber(start func(fn func()), probe func(nodes []core.NodeID, into []store.Occupancy) error) *prober {
	return &prober{probe: probe, start: start, mu: run.NewMutex("dispatch_prober"), busy: make(chan struct{}, 1)}
}

// maxBatchNodes bounds the nodes of one batch (by at most one chunk more), so that its answer comes before its requests
// time out.
const maxBatchNodes = 512

// probeBatch is one call to the store, and its result.
type probeBatch struct {
	index map[core.NodeID]int
	nodes []core.NodeID
	sent  bool
	done  chan struct{} // closed when the result is there

	occupancy []store.Occupancy
	err       error

	mu        run.Mutex
	unclaimed []int // free slots per node that no request of this batch has tried to reserve
}

// read probes nodes. The store is called after read was, so slots that were free then are seen, and once for all requests
// that wait meanwhile. A request whose context ends does not affect the others.
func (p *prober) read(ctx context.Context, nodes []core.NodeID) (*probeBatch, error) {
	b := p.join(nodes)
	select {
	case p.busy <- struct{}{}:
		p.send(b)
	case <-b.done:
	case <-ctx.Done():
	}
	select {
	case <-b.done:
		return b, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join adds nodes to the next batch.
func (p *prober) join(nodes []core.NodeID) *probeBatch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil || len(p.next.nodes) >= maxBatchNodes {
		p.next = &probeBatch{mu: run.NewMutex("dispatch_batch"), index: make(map[core.NodeID]int), done: make(chan struct{})}
	}
	b := p.next
	for _, id := range nodes {
		if _, known := b.index[id]; !known {
			b.index[id] = len(b.nodes)
			b.nodes = append(b.nodes, id)
		}
	}
	return b
}

// send calls the store in the background, unless the batch was sent. The caller has put the element into busy; it is taken
// out when the result is there.
func (p *prober) send(b *probeBatch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.sent {
		<-p.busy
		return
	}
	b.sent = true
	if p.next == b {
		p.next = nil
	}
	p.start(func() {
		defer func() { <-p.busy }()
		b.occupancy, b.unclaimed = make([]store.Occupancy, len(b.nodes)), make([]int, len(b.nodes))
		b.err = p.probe(b.nodes, b.occupancy)
		for i, o := range b.occupancy {
			if o.Free() {
				b.unclaimed[i] = o.Slots() - o.InFlight()
			}
		}
		close(b.done)
	})
}

// occupancyOf returns how full a node was.
func (b *probeBatch) occupancyOf(id core.NodeID) *store.Occupancy { return &b.occupancy[b.index[id]] }

// claimSlot reports whether the caller may try to reserve a slot of a node. As many may try as slots were free.
func (b *probeBatch) claimSlot(id core.NodeID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.index[id]
	if b.unclaimed[i] == 0 {
		return false
	}
	b.unclaimed[i]--
	return true
}

// unclaimSlot returns a claim whose slot was not taken, so that another request may try.
func (b *probeBatch) unclaimSlot(id core.NodeID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unclaimed[b.index[id]]++
}
