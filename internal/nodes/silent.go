package nodes

import (
	"context"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/parallel"
)

// lostAtOnce is how many silent nodes have their jobs moved at the same time. Each waits for the store most of the time, and
// dispatches ask the same store.
const lostAtOnce = 8

// Silent moves on the jobs of nodes that are not heard any more, and returns those for which it could not. Most nodes of a
// large loss have no jobs: which have is read for all of them together.
func (l *Registry) MoveJobsOfSilent(ctx context.Context, ids []core.NodeID) map[core.NodeID]error {
	unhandled := make(map[core.NodeID]error)
	leases, err := l.store.Orphans(ctx, ids...)
	if err != nil {
		for _, id := range ids {
			unhandled[id] = err
		}
		return unhandled
	}
	busy := make(map[core.NodeID]bool)
	for i := range leases {
		busy[leases[i].Node] = true
	}
	var mu sync.Mutex
	parallel.ForEach(lostAtOnce, ids, func(id core.NodeID) {
		if !busy[id] {
			return
		}
		if err := l.silent(ctx, id); err != nil {
			mu.Lock()
			defer mu.Unlock()
			unhandled[id] = err
		}
	})
	return unhandled
}
