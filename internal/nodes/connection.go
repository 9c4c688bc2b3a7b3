package nodes

import (
	"context"
	"errors"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Disconnected records that a node's connection is lost: no instance gives it new jobs, and its jobs continue until they have moved. Reconnected or
// a registration reverts it; a call that comes after either changes nothing.
func (r *Registry) Disconnected(ctx context.Context, id core.NodeID, epoch core.Epoch, connection uint64) error {
	_, err := r.connect(ctx, store.ConnectParams{Node: id, Epoch: epoch, Connection: connection, Lost: true})
	return err
}

// Reconnected records that a node has another connection in the same epoch.
func (r *Registry) Reconnected(ctx context.Context, id core.NodeID, epoch core.Epoch, connection uint64) error {
	declared, err := r.connect(ctx, store.ConnectParams{Node: id, Epoch: epoch, Connection: connection})
	switch {
	case err != nil:
		return err
	case declared == nil || declared.Epoch != epoch:
		return wire.FieldErrorf(wire.StaleEpoch, "epoch", "node %s has registered again since epoch %d", id, epoch)
	}
	if n := r.fleet.Node(id); n != nil {
		n.ClearMissedACKs() // it may have missed ACKs only because its connection was dead
	}
	return nil
}

// KeepAlive records that a node has answered a ping although no heartbeat has come for a while. It reports whether that has renewed the
// node's presence.
func (r *Registry) KeepAlive(ctx context.Context, p store.KeepAliveParams) (renewed bool, err error) {
	v, err := r.store.KeepAlive(ctx, p)
	if err != nil {
		return false, r.storeError(ctx, "keep_alive", err)
	}
	if v == store.OK {
		r.fleet.RecordSeen(p.Node, 0)
	}
	return v == store.OK, nil
}

// connect records a connection change and updates this instance's fleet; other instances are notified by the store. The node
// is nil if it is not registered.
func (r *Registry) connect(ctx context.Context, p store.ConnectParams) (*core.Node, error) {
	declared, err := r.store.Connect(ctx, p)
	switch {
	case errors.Is(err, store.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, r.storeError(ctx, "connect", err)
	}
	r.fleet.Redeclare(declared)
	return declared, nil
}
