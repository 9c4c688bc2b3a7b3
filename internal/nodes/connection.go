package nodes

import (
	"context"
	"errors"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Disconnected records that a node's connection is lost: no instance gives it new jobs, and its jobs continue until they have moved.
// Reconnected or a registration reverts it; a call that comes after either changes nothing.
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

// Silent records that nothing has come over a node's connection for a while although the node has a job: it counts as disconnected, with
// its connection open, until Heard.
func (r *Registry) Silent(ctx context.Context, id core.NodeID, epoch core.Epoch, connection uint64, silence time.Duration) error {
	declared, err := r.connect(ctx, store.ConnectParams{Node: id, Epoch: epoch, Connection: connection, Lost: true, SilentFor: silence})
	if err != nil || declared == nil || declared.Epoch != epoch || declared.SilentSince == 0 {
		return err // else it has another connection by now
	}
	r.log.Info("nothing comes from a node although it has a job: its jobs move to nodes with a free slot",
		"node_id", id, "silent_for", silence.Round(time.Millisecond).String())
	r.cfg.Events.Record(store.Event{
		Kind: store.EventNodeSilent, Node: id, Tenant: declared.Tenant,
		Detail: "nothing came from it for " + silence.Round(10*time.Millisecond).String(),
	})
	return nil
}

// Heard records that something has come over the connection of a node that was silent.
func (r *Registry) Heard(ctx context.Context, id core.NodeID, epoch core.Epoch, connection uint64) error {
	err := r.Reconnected(ctx, id, epoch, connection)
	if err == nil {
		r.metrics.SilentHeard.Inc()
	}
	return err
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
