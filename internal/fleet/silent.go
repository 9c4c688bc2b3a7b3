package fleet

import (
	"iter"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// The silent are nodes that are registered and not heard any more. They are out of view: nothing is drawn from
// them. But a refusal must not say that nobody could ever do the job when somebody could who is away.

// Silent walks what silent nodes last declared, in no order.
func (f *Fleet) Silent() iter.Seq[*core.Node] { return f.silent.values() }

// setSilent notes that a node is silent, or, with nil, that it is not.
func (f *Fleet) setSilent(id core.NodeID, declared *core.Node) {
	if declared == nil {
		f.silent.remove(id)
	} else {
		f.silent.put(id, declared)
	}
}
