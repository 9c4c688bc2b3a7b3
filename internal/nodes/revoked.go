package nodes

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Revocations says which nodes are revoked, and remembers which are drained. A *revocation.Follower does.
type Revocations interface {
	// NodeRevoked reports whether a registered node is revoked: its name, or the key or the tenant with which it registered.
	NodeRevoked(n *core.Node) bool
	// NodeNameRevoked reports whether a name is revoked.
	NodeNameRevoked(id core.NodeID) bool
	// NodeDrained reports whether a node was drained and not resumed since, also if the store has lost the node.
	NodeDrained(id core.NodeID) bool
	RecordDrain(ctx context.Context, id core.NodeID, drained bool) error
	// Read reads what other instances have changed.
	Read(ctx context.Context) error
}

// nameCheck refuses nodes whose names are revoked.
type nameCheck struct{ revocations Revocations }

// CheckName returns the answer to a node whose name is revoked; nil if it is not.
func (c nameCheck) CheckName(id core.NodeID) *wire.Error {
	if c.revocations == nil || !c.revocations.NodeNameRevoked(id) {
		return nil
	}
	return wire.FieldErrorf(wire.Forbidden, "node_id", "the node %s is revoked: stop it, or let an operator lift that (lingua revoke list)",
		id)
}

// IsRevoked reports whether a node of a registry's fleet is revoked: its name, or the key or the tenant with which it is registered.
func IsRevoked(r *Registry, id core.NodeID) bool {
	if r.revocations == nil {
		return false
	}
	n := r.fleet.Node(id)
	return r.revocations.NodeNameRevoked(id) || n != nil && r.revocations.NodeRevoked(n.Declared())
}

const (
	revokedWorkers = 8               // nodes that are removed concurrently
	revokedLock    = 5 * time.Second // for how long one instance alone removes a node
)

// RemoveRevoked removes every node of a registry's fleet that is revoked, whether or not it still runs, and moves its jobs. Of several
// instances one does. What fails is left to the next call.
func RemoveRevoked(ctx context.Context, r *Registry) {
	if r.revocations == nil {
		return
	}
	var revoked []core.NodeID
	for n := range r.fleet.All() {
		if declared := n.Declared(); r.revocations.NodeRevoked(declared) {
			revoked = append(revoked, declared.ID)
		}
	}
	run.ForEach(revokedWorkers, revoked, func(id core.NodeID) {
		lock := store.LockParams{Name: "revoked:" + string(id), Holder: string(r.cfg.Instance), TTL: revokedLock}
		if held, err := r.store.Lock(ctx, lock); err != nil || !held.Held {
			return
		}
		defer func() { _ = r.store.Unlock(ctx, lock) }() // otherwise it expires
		if now, err := r.Node(ctx, id); err == nil && !r.revocations.NodeRevoked(now.Node) {
			r.updateFleet(ctx, now) // it has registered again, with another key
			return
		}
		_, err := removeFor(ctx, r, id, "revoked")
		var e *wire.Error
		if err != nil && (!errors.As(err, &e) || e.Code != wire.NotFound) {
			r.log.Warn("a revoked node could not be removed; it is tried again", "node_id", id, "error", err)
		}
	})
}
