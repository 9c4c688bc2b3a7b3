package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// MaxMarks is how many marks a node has at most. One more takes the place of the one that expires first.
const MaxMarks = 256

// Marks remembers which services of a node were found to be unavailable although the node declares them.
type Marks interface {
	// Mark marks a service of a node as unavailable for m.For from now on, and publishes the mark to the watchers of the fleet. A second
	// mark of the same service and version replaces the first, and keeps the higher NodeVersion. It returns ErrNoNode for a node that is
	// not registered, or that has registered again since m.Epoch: a registration removes all marks.
	Mark(ctx context.Context, m Mark) error
	// Marked lists the unexpired marks of nodes, in the order of the nodes, with the remaining time in For and without reasons. Nodes that
	// are not registered have none.
	Marked(ctx context.Context, nodes ...core.NodeID) ([]Mark, error)
}

// Mark says that a service of a node is unavailable for a while, or until the node reports that it has become ready.
type Mark struct {
	Node    core.NodeID
	Service string
	Version string // of the service; empty: all its versions
	// Epoch and NodeVersion are those of the node when it reported the service as unavailable. A service that has become ready at a
	// later version of the node is not marked.
	Epoch       core.Epoch
	NodeVersion core.Version
	For         time.Duration
	// Reason is why. Watchers are told; it is not kept.
	Reason core.UnavailableReason
}
