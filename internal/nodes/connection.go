package nodes

import (
	"context"
	"errors"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Disconnected has nobody give a node new work while its connection is lost, on any instance; its jobs go on. It is
// taken back by Reconnected or by a registration. One that comes after either changes nothing.
func (l *Registry) Disconnected(ctx context.Context, id core.NodeID, epoch core.Epoch, connection uint64) error {
	_, err := l.connect(ctx, store.ConnectParams{Node: id, Epoch: epoch, Connection: connection, Lost: true})
	return err
}

// Reconnected says that a node has another connection in the same epoch.
func (l *Registry) Reconnected(ctx context.Context, id core.NodeID, epoch core.Epoch, connection uint64) error {
	now, err := l.connect(ctx, store.ConnectParams{Node: id, Epoch: epoch, Connection: connection})
	switch {
	case err != nil:
		return err
	case now == nil || now.Epoch != epoch:
		return wire.Wrong(wire.StaleEpoch, "epoch", "node %s has registered again since epoch %d", id, epoch)
	}
	if n := l.fleet.Node(id); n != nil {
		n.ClearMissedACKs() // what it missed it may have missed because its connection was dead
	}
	return nil
}

// connect makes the step and brings this instance's view up to date; others are told by the store. The node is nil when
// it is not registered.
func (l *Registry) connect(ctx context.Context, p store.ConnectParams) (*core.Node, error) {
	now, err := l.store.Connect(ctx, p)
	switch {
	case errors.Is(err, store.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, l.down(ctx, "connect", err)
	}
	l.fleet.Redeclare(now)
	return now, nil
}

// Gone moves on the jobs of a node whose connection was lost and did not come back: it is known to be away long before
// its silence would show. Until it comes back it is offline for everybody. One that has begun another epoch is left alone.
func (l *Registry) NodeLost(ctx context.Context, id core.NodeID, epoch core.Epoch) error {
	n := l.fleet.Node(id)
	if n == nil {
		return nil // whoever follows the fleet sees to it
	}
	known := n.Declared()
	for again := false; ; again = true {
		away := *known
		away.Health = core.HealthOffline
		pulse, err := l.store.Heartbeat(ctx, store.HeartbeatParams{
			Node: id, Epoch: epoch, Known: known, Declared: &away, Load: core.UnknownLoad, Unheard: true, Again: again,
		})
		if err != nil {
			return l.down(ctx, "gone", err)
		}
		if pulse.Verdict != store.OK {
			return nil
		}
		l.admit(ctx, pulse.NodeStatus)
		if pulse.Node.Health == core.HealthOffline {
			break
		}
		known = pulse.Node // it had changed since this instance last looked
	}
	moved, err := l.jobs.NodeLost(ctx, id)
	l.log.Info("node did not come back; its jobs are moved", "node_id", id, "epoch", epoch, "jobs", moved)
	return err
}
