package nodes

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// MarkLost marks a node as offline whose connection was lost and did not come back, and moves its jobs, long before its
// silence would show. It does nothing if the node has begun another epoch.
func (r *Registry) MarkLost(ctx context.Context, id core.NodeID, epoch core.Epoch) error {
	offline, err := r.markOffline(ctx, id, epoch)
	if err != nil || offline == nil {
		return err
	}
	moved, err := r.jobs.Moves.MoveJobsOfNode(ctx, id)
	r.log.Info("node did not reconnect; its jobs are moved", "node_id", id, "epoch", epoch, "jobs", moved)
	r.cfg.Events.Record(store.Event{Kind: store.EventNodeLost, Node: id, Tenant: offline.Tenant, Jobs: moved, Detail: "did not reconnect"})
	return err
}

// Leave removes a node that stops, at its own request, and moves the jobs that it still has. A node that an operator has drained stays
// registered, offline: the drain must outlast its restart. Leave does nothing if the node has begun another epoch.
func (r *Registry) Leave(ctx context.Context, id core.NodeID, epoch core.Epoch) error {
	offline, err := r.markOffline(ctx, id, epoch)
	if err != nil || offline == nil {
		return err
	}
	moved, err := r.jobs.Moves.MoveJobsOfNode(ctx, id)
	if err != nil {
		return r.storeError(ctx, "leave", err)
	}
	if !offline.Drained {
		if r.RemembersDrain(id) { // left over
			_ = r.recordDrain(ctx, id, false)
		}
		if _, err := r.remove(ctx, id, epoch); err != nil {
			return err
		}
	}
	r.cfg.Events.Record(store.Event{Kind: store.EventNodeLeft, Node: id, Tenant: offline.Tenant, Jobs: moved})
	r.log.Info("node left", "node_id", id, "epoch", epoch, "jobs", moved, "stays_drained", offline.Drained)
	return nil
}

// markOffline marks a node as offline, so that no instance gives it jobs, and returns its declaration. It is nil if the node has begun
// another epoch or is not known: then the fleet's follower handles it.
func (r *Registry) markOffline(ctx context.Context, id core.NodeID, epoch core.Epoch) (*core.Node, error) {
	n := r.fleet.Node(id)
	if n == nil {
		return nil, nil
	}
	known := n.Declared()
	for again := false; ; again = true {
		offline := *known
		offline.Health = core.HealthOffline
		result, err := r.store.Heartbeat(ctx, store.HeartbeatParams{
			Node: id, Epoch: epoch, Known: known, Declared: &offline, Load: core.UnknownLoad, OnBehalf: true, Repeat: again,
		})
		if err != nil {
			return nil, r.storeError(ctx, "offline", err)
		}
		if result.Verdict != store.OK {
			return nil, nil
		}
		r.updateFleet(ctx, result.NodeStatus)
		if result.Node.Health == core.HealthOffline {
			return result.Node, nil
		}
		known = result.Node // it had changed since this instance last read it
	}
}

// Removed is the result of a removal.
type Removed struct {
	Before store.NodeStatus // the node as it was
	Moved  int              // jobs that were moved to other nodes
}

// Remove removes a node at an operator's request, whether or not it still runs, and moves its jobs. The node is drained first, so that
// it gets no job meanwhile. If this process dies on the way, the node stays drained, and the removal can be repeated.
func (r *Registry) Remove(ctx context.Context, id core.NodeID) (Removed, error) {
	return removeFor(ctx, r, id, "")
}

// removeFor removes a node, for a reason that is recorded with the event.
func removeFor(ctx context.Context, r *Registry, id core.NodeID, reason string) (Removed, error) {
	before, err := r.Node(ctx, id)
	if err != nil {
		return Removed{}, err
	}
	if err := r.setDrained(ctx, id, true); err != nil {
		return Removed{}, err
	}
	moved, err := r.jobs.Moves.MoveJobsOfNode(ctx, id)
	if err != nil {
		return Removed{}, r.storeError(ctx, "remove", err)
	}
	if before.Node.Drained || r.RemembersDrain(id) { // before it can come back
		if err := r.recordDrain(ctx, id, false); err != nil {
			return Removed{}, err
		}
	}
	removed, err := r.remove(ctx, id, before.Node.Epoch)
	if err != nil {
		return Removed{}, err
	}
	if !removed {
		// After an error the operator sees that it is drained.
		if before.Node.Drained {
			_ = r.recordDrain(ctx, id, true)
		} else {
			_ = r.setDrained(ctx, id, false)
		}
		return Removed{}, wire.FieldErrorf(wire.StaleEpoch, "node_id",
			"node %s has registered again meanwhile, so it still runs: stop it first, or drain it", id)
	}
	r.cfg.Events.Record(store.Event{Kind: store.EventNodeRemoved, Node: id, Tenant: before.Node.Tenant, Jobs: moved, Detail: reason})
	r.log.Info("node removed", "node_id", id, "epoch", before.Node.Epoch, "jobs", moved, "reason", reason)
	return Removed{Before: before, Moved: moved}, nil
}

// remove removes a node from the store and from this instance's fleet. It reports false if the node has begun another epoch.
func (r *Registry) remove(ctx context.Context, id core.NodeID, epoch core.Epoch) (bool, error) {
	removed, err := r.store.Remove(ctx, store.RemoveParams{Node: id, Epoch: epoch})
	if err != nil {
		return false, r.storeError(ctx, "remove", err)
	}
	if removed {
		r.fleet.Remove(id)
	}
	return removed, nil
}
