package telemetry

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxExamples is how many nodes are remembered for each reason.
	MaxExamples = 5
	// examplesInterval is how often refused dispatches look for examples: to name nodes costs more than to count them.
	examplesInterval = time.Second
)

// Exclusions has examples of nodes that were no candidates in refused dispatches: for each reason the last few.
type Exclusions struct {
	last atomic.Int64 // when examples were looked for, in Unix nanoseconds

	mu       sync.Mutex
	byReason map[string]*Examples
}

// Examples are the last nodes that were excluded for a reason, the latest first.
type Examples struct {
	Nodes []string
	At    time.Time // when the latest was excluded
}

// Due reports whether it is time to look for examples. Of concurrent callers one gets true.
func (e *Exclusions) Due(now time.Time) bool {
	last := e.last.Load()
	since := now.UnixNano() - last // negative: the clock was set back
	return (since >= int64(examplesInterval) || since < 0) && e.last.CompareAndSwap(last, now.UnixNano())
}

// Add adds an example. The reason must be one of a bounded set.
func (e *Exclusions) Add(reason, node string, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byReason == nil {
		e.byReason = make(map[string]*Examples)
	}
	x := e.byReason[reason]
	if x == nil {
		x = new(Examples)
		e.byReason[reason] = x
	}
	x.Nodes = slices.DeleteFunc(x.Nodes, func(known string) bool { return known == node })
	x.Nodes = slices.Insert(x.Nodes[:min(len(x.Nodes), MaxExamples-1)], 0, node)
	x.At = now
}

// All returns a copy of the examples by reason.
func (e *Exclusions) All() map[string]Examples {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[string]Examples, len(e.byReason))
	for reason, x := range e.byReason {
		all[reason] = Examples{Nodes: slices.Clone(x.Nodes), At: x.At}
	}
	return all
}
