package nodes

import (
	"context"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// silentWorkers is how many silent nodes have their jobs moved concurrently. Each mostly waits for the store, which
// dispatches use too.
const silentWorkers = 8

// MoveJobsOfSilent moves the jobs of nodes that have fallen silent, and returns those nodes for which it could not. Most nodes
// of a large loss have no jobs: the nodes that have some are read together.
func (r *Registry) MoveJobsOfSilent(ctx context.Context, ids []core.NodeID) map[core.NodeID]error {
	unhandled := make(map[core.NodeID]error)
	leases, err := r.store.Orphans(ctx, ids...)
	if err != nil {
		for _, id := range ids {
			unhandled[id] = err
		}
		return unhandled
	}
	hasJobs := make(map[core.NodeID]bool)
	for i := range leases {
		hasJobs[leases[i].Node] = true
	}
	var mu sync.Mutex
	run.ForEach(silentWorkers, ids, func(id core.NodeID) {
		if !hasJobs[id] {
			r.recordLoss(ctx, id)
			return
		}
		if err := r.moveJobsOfSilentNode(ctx, id); err != nil {
			mu.Lock()
			defer mu.Unlock()
			unhandled[id] = err
		}
	})
	return unhandled
}

// recordLoss records that a node without jobs has fallen silent, unless that was recorded before: when it was marked as lost, or while this
// instance was not there. All instances notice it; one of them records it.
func (r *Registry) recordLoss(ctx context.Context, id core.NodeID) {
	declared := r.fleet.SilentNode(id)
	if r.fleet.SilentAtStart(id) || declared != nil && declared.Health == core.HealthOffline {
		return
	}
	once := store.AllowParams{Key: "silent:" + string(id), Limit: 1, Window: r.cfg.Presence}
	if first, err := r.store.Allow(ctx, once); err == nil && first {
		r.cfg.Events.Record(store.Event{Kind: store.EventNodeLost, Node: id, Tenant: r.fleet.TenantOf(id), Detail: "silent"})
	}
}

// silentLockTTL is how long an instance has to move the jobs of a silent node before another may.
const silentLockTTL = 5 * time.Second

// moveJobsOfSilentNode moves the jobs of one silent node. A lock elects one of the instances that notice; the others try again
// later and find nothing to move.
func (r *Registry) moveJobsOfSilentNode(ctx context.Context, id core.NodeID) error {
	params := store.LockParams{Name: "silent:" + string(id), Holder: string(r.cfg.Instance), TTL: silentLockTTL}
	lock, err := r.store.Lock(ctx, params)
	if err != nil {
		return err
	}
	if !lock.Held {
		return fleet.ErrHandledElsewhere // try again, in case the other instance dies
	}
	// Last-seen times are read in batches; the node's own entry is current.
	if status, err := store.ReadNode(ctx, r.store, id); err == nil && status.Age < r.cfg.Presence {
		return r.store.Unlock(ctx, params)
	}
	moved, err := r.jobs.Moves.MoveJobsOfNode(ctx, id)
	if moved > 0 {
		r.log.Warn("node is silent; its jobs are moved", "node_id", id, "jobs", moved)
		r.cfg.Events.Record(store.Event{Kind: store.EventNodeLost, Node: id, Tenant: r.fleet.TenantOf(id), Jobs: moved, Detail: "silent"})
	}
	if err != nil {
		return err
	}
	return r.store.Unlock(ctx, params)
}

// EvictSilent removes nodes that have been silent for the retention time. It runs until the context ends.
func (r *Registry) EvictSilent(ctx context.Context) {
	for run.SleepJitter(ctx, r.cfg.Retention/10+time.Second, 0.1) {
		overdue, err := r.store.Overdue(ctx, r.cfg.Retention)
		if err != nil {
			continue // the fleet's follower reports it every second
		}
		for _, s := range overdue.Nodes {
			tenant := r.fleet.TenantOf(s.Node)
			if removed, err := r.store.Remove(ctx, store.RemoveParams{Node: s.Node, SilentFor: r.cfg.Retention}); err == nil && removed {
				if r.RemembersDrain(s.Node) {
					_ = r.recordDrain(ctx, s.Node, false) // otherwise it is drained if it comes back
				}
				r.cfg.Events.Record(store.Event{Kind: store.EventNodeEvicted, Node: s.Node, Tenant: tenant})
				r.log.Info("node evicted", "node_id", s.Node, "silent_for", s.Age.Round(time.Second).String())
			}
		}
	}
}
