package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Marks remembers which services of a node were found to be unavailable although the node declares them.
type Marks interface {
	// Mark marks a service of a node as unavailable for m.For from now on, and publishes the mark to the watchers of the fleet.
	// A second mark of the same service replaces the first. It returns ErrNoNode for a node that is not registered.
	Mark(ctx context.Context, m Mark) error
	// Marked lists the unexpired marks of nodes, in the order of the nodes, with the remaining time in For. Nodes that are not
	// registered have none.
	Marked(ctx context.Context, nodes ...core.NodeID) ([]Mark, error)
}

// Mark says that a service of a node is unavailable for a while.
type Mark struct {
	Node    core.NodeID
	Service string
	For     time.Duration
}
