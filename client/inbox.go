package client

import (
	"context"
	"sync"
)

// inboxSize bounds, in bytes as they came, the events that nobody has read.
const inboxSize = 8 << 20

// eventCost is what an event takes beside the bytes it came in.
const eventCost = 256

// inbox holds events until they are read. One goroutine puts, any may take.
type inbox struct {
	filled  chan struct{} // holds one token when there may be something to take
	drained chan struct{} // holds one token when there may be room again
	ended   chan struct{}

	mu     sync.Mutex
	events []Event
	costs  []int
	cost   int
	err    error
}

func newInbox() *inbox {
	return &inbox{filled: make(chan struct{}, 1), drained: make(chan struct{}, 1), ended: make(chan struct{})}
}

// put waits for room. It reports false when the context ended first.
func (b *inbox) put(ctx context.Context, e Event, size int) bool {
	for {
		b.mu.Lock()
		if b.cost < inboxSize {
			b.events, b.costs = append(b.events, e), append(b.costs, size+eventCost)
			b.cost += size + eventCost
			b.mu.Unlock()
			signal(b.filled)
			return true
		}
		b.mu.Unlock()
		select {
		case <-b.drained:
		case <-ctx.Done():
			return false
		}
	}
}

// end says that nothing more comes, and why.
func (b *inbox) end(err error) {
	b.mu.Lock()
	b.err = err
	b.mu.Unlock()
	close(b.ended)
}

// take waits for the next event. After the last it returns none, and why there are no more.
func (b *inbox) take() (Event, error) {
	for {
		if e, left := b.pop(); e != nil {
			signal(b.drained)
			if left {
				signal(b.filled) // for another reader
			}
			return e, nil
		}
		select {
		case <-b.filled:
		case <-b.ended:
			if e, _ := b.pop(); e != nil { // it was put between the look and the end
				return e, nil
			}
			return nil, b.err
		}
	}
}

func (b *inbox) pop() (e Event, left bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) == 0 {
		return nil, false
	}
	e = b.events[0]
	b.events[0] = nil
	b.cost -= b.costs[0]
	b.events, b.costs = b.events[1:], b.costs[1:]
	return e, len(b.events) > 0
}

// signal leaves a token, unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
