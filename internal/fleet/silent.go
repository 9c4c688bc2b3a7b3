package fleet

import (
	"iter"
	"maps"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// The silent are nodes that are registered and not heard any more. They are out of view: nothing is drawn from
// them. But a refusal must not say that nobody could ever do the job when somebody could who is away.

// Silent walks what silent nodes last declared, in no order.
func (f *Fleet) Silent() iter.Seq[*core.Node] { return maps.Values(*f.silent.Load()) }

// setSilent notes that a node is silent, or, with nil, that it is not.
func (f *Fleet) setSilent(id core.NodeID, declared *core.Node) {
	known := *f.silent.Load()
	if known[id] == declared {
		return
	}
	next := maps.Clone(known)
	if declared == nil {
		delete(next, id)
	} else {
		next[id] = declared
	}
	f.silent.Store(&next)
}
