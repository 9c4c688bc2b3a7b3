// Package nodes is a node's life: it registers, sends heartbeats, is drained and resumed, says what it cannot
// do after all, and falls silent. Each of these is one step in the store; this package makes the step, brings
// the instance's own view up to date, and hands the jobs that do not fit any more to dispatch.
package nodes

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Config is how nodes are treated.
type Config struct {
	Instance  core.InstanceID
	Heartbeat time.Duration // how often nodes are asked to send one
	Presence  time.Duration // how long a node may be silent
	Retention time.Duration // how long a silent node is remembered
	MarkFor   time.Duration // how long a service found missing is not relied on
	MarkRate  int           // how many such reports a node may send a minute
}

// Store is what this package needs of the store.
type Store interface {
	store.Nodes
	store.NodeReader
	store.Marks
	store.Board
	store.LeaseReader
}

// Life sees to the nodes.
type Registry struct {
	cfg     Config
	store   Store
	fleet   *fleet.Fleet
	jobs    *dispatch.Dispatcher
	metrics *telemetry.Metrics
	log     *slog.Logger
}

// New makes it.
func New(cfg Config, st Store, fl *fleet.Fleet, jobs *dispatch.Dispatcher, m *telemetry.Metrics, log *slog.Logger) *Registry {
	return &Registry{cfg: cfg, store: st, fleet: fl, jobs: jobs, metrics: m, log: log}
}

// Registered is the answer to a registration.
type Registered struct {
	Node   *core.Node
	Cancel []store.ActiveJob
}

// Register begins a life of a node. A node without a name gets one.
func (l *Registry) Register(ctx context.Context, id core.NodeID, p Patch, a store.Activity) (Registered, error) {
	if id == "" {
		id = NewID()
	}
	p.normalise()
	return l.enroll(ctx, store.RegisterParams{Node: p.Declare(id), Load: p.load(), Activity: a, Connection: p.Connection})
}

// NewID makes a name for a node that has none.
func NewID() core.NodeID { return core.NodeID("node-" + uuid.Must(uuid.NewV7()).String()) }

// Readmit registers a connected node that the store has forgotten, as it has declared itself by now.
func (l *Registry) Readmit(ctx context.Context, declared core.Node, connection uint64, a store.Activity) (Registered, error) {
	declared.Capability.Normalise()
	return l.enroll(ctx, store.RegisterParams{Node: declared, Load: core.UnknownLoad, Activity: a, Connection: connection})
}

func (l *Registry) enroll(ctx context.Context, p store.RegisterParams) (Registered, error) {
	moves := l.moves(&p.Node)
	r, err := l.store.Register(ctx, p)
	if err != nil {
		l.metrics.NodeRegistration.WithLabelValues("error").Inc()
		return Registered{}, l.down(ctx, "register", err)
	}
	l.admit(ctx, r.NodeStatus)
	if moves {
		l.metrics.Takeovers.WithLabelValues("node").Inc()
	}
	status := "new"
	if r.Known {
		status = "again"
	}
	l.metrics.NodeRegistration.WithLabelValues(status).Inc()
	l.log.Info("node registered", "node_id", p.Node.ID, "epoch", r.Node.Epoch, "status", status,
		"max_concurrent_jobs", r.Node.MaxJobs, "kept", len(r.Kept), "orphans", len(r.Orphans), "strays", len(r.Strays))

	// What the node still has is its own in the new life before it hears that the life has begun.
	cancel, err := l.jobs.Rebind(ctx, r.Node.Epoch, r.Kept)
	if err != nil {
		return Registered{}, err
	}
	cancel = append(cancel, l.jobs.Strays(ctx, r.Strays, r.Young)...)
	l.jobs.Orphaned(r.Orphans)
	l.offer(r.Node.ID, r.Occupancy)
	return Registered{Node: r.Node, Cancel: cancel}, nil
}

// Beat is a heartbeat.
type Heartbeat struct {
	Node     core.NodeID
	Epoch    core.Epoch // 0: the node does not say
	Seq      uint64     // 0: the node does not count
	Patch    Patch
	Activity store.Activity
}

// Heartbeat takes in a heartbeat and returns what the node should stop. A heartbeat that says everything a
// registration would registers a node that is not known.
func (l *Registry) Heartbeat(ctx context.Context, b Heartbeat) ([]store.ActiveJob, error) {
	began := time.Now()
	defer func() {
		l.metrics.HeartbeatLatency.Observe(float64(time.Since(began)) / float64(time.Millisecond))
	}()
	b.Patch.normalise()
	known, err := l.declared(ctx, b.Node)
	if err != nil {
		return nil, err
	}
	for again := false; known != nil; again = true {
		pulse, err := l.beat(ctx, &b, known, again)
		if err != nil {
			return nil, l.down(ctx, "heartbeat", err)
		}
		switch pulse.Verdict {
		case store.StaleEpoch:
			return nil, wire.Wrong(wire.StaleEpoch, "epoch", "node %s has registered again since epoch %d; use the epoch of its last registration", b.Node, b.Epoch)
		case store.TooLate:
			if ctx.Err() != nil {
				return nil, l.down(ctx, "heartbeat", ctx.Err())
			}
			return nil, nil // overtaken by a later one, which has said all there is to say
		case store.OK:
			if !b.Patch.holdsFor(pulse.Node) {
				known = pulse.Node // it had changed since this instance last looked: say it again
				continue
			}
			if pulse.Node.Disconnected && (b.Patch.Connection != 0 || pulse.Node.Callback != "") {
				// It is reached by its callback_url since, or the store has forgotten that it is connected again.
				if _, err := l.connect(ctx, store.ConnectParams{Node: b.Node, Epoch: pulse.Node.Epoch, Connection: b.Patch.Connection}); err != nil {
					return nil, err
				}
			}
			return l.follow(ctx, known, &pulse), nil
		}
		known = nil
	}
	if !b.Patch.Full() || b.Patch.Connection != 0 {
		// A connected node is registered by whoever has its connection, from all that it has declared over it.
		return nil, wire.Wrong(wire.NotFound, "node_id", "no node %s is registered; register again with POST /v1/node/register", b.Node)
	}
	r, err := l.enroll(ctx, store.RegisterParams{Node: b.Patch.Declare(b.Node), Load: b.Patch.load(), Activity: b.Activity, Returning: true})
	return r.Cancel, err
}

// declared is what a node is known to declare; nil when it is not known.
func (l *Registry) declared(ctx context.Context, id core.NodeID) (*core.Node, error) {
	if n := l.fleet.Node(id); n != nil {
		return n.Declared(), nil
	}
	status, err := l.store.Node(ctx, id)
	switch {
	case err == nil:
		return status.Node, nil
	case errors.Is(err, store.ErrNoNode):
		return nil, nil
	}
	return nil, l.down(ctx, "heartbeat", err)
}

func (l *Registry) beat(ctx context.Context, b *Heartbeat, known *core.Node, again bool) (store.HeartbeatResult, error) {
	p := store.HeartbeatParams{
		Node: b.Node, Epoch: b.Epoch, Seq: b.Seq, Again: again, Known: known, Load: b.Patch.load(), Activity: b.Activity,
	}
	if !b.Patch.holdsFor(known) {
		next := *known
		b.Patch.Apply(&next)
		p.Declared = &next
	}
	return l.store.Heartbeat(ctx, p)
}

// follow brings the view up to date and hands on what does not fit.
func (l *Registry) follow(ctx context.Context, known *core.Node, pulse *store.HeartbeatResult) []store.ActiveJob {
	if pulse.Node != known || l.fleet.Node(known.ID) == nil {
		l.admit(ctx, pulse.NodeStatus)
	} else {
		l.fleet.RecordHeartbeat(known.ID, pulse.Load, pulse.Occupancy)
	}
	l.offer(known.ID, pulse.Occupancy)
	l.jobs.Orphaned(pulse.Orphans)
	l.jobs.Overdue(pulse.Overdue)
	return append(pulse.Cancels, l.jobs.Strays(ctx, pulse.Strays, pulse.Young)...)
}

// offer wakes a request that waits for a node with room, if this one has some.
func (l *Registry) offer(id core.NodeID, o store.Occupancy) {
	if o.Free() {
		l.jobs.FreeSlots(l.fleet.Node(id))
	}
}

// admit brings a node into this instance's view.
func (l *Registry) admit(ctx context.Context, s store.NodeStatus) {
	if err := l.fleet.Admit(ctx, l.store, s); err != nil {
		l.log.Warn("could not read a node's marks", "node_id", s.Node.ID, "error", err)
	}
}

// Drain sets or clears the operator's wish that a node gets nothing new.
func (l *Registry) Drain(ctx context.Context, id core.NodeID, drained bool) (store.NodeStatus, error) {
	if _, err := l.store.Drain(ctx, store.DrainParams{Node: id, Drained: drained}); err != nil {
		if errors.Is(err, store.ErrNoNode) {
			return store.NodeStatus{}, unknownNode(id)
		}
		return store.NodeStatus{}, l.down(ctx, "drain", err)
	}
	status, err := l.Node(ctx, id)
	if err == nil {
		l.admit(ctx, status)
		l.log.Info("node drained or resumed", "node_id", id, "drained", drained)
	}
	return status, err
}

// Node returns one node.
func (l *Registry) Node(ctx context.Context, id core.NodeID) (store.NodeStatus, error) {
	status, err := l.store.Node(ctx, id)
	switch {
	case errors.Is(err, store.ErrNoNode):
		return store.NodeStatus{}, unknownNode(id)
	case err != nil:
		return store.NodeStatus{}, l.down(ctx, "node", err)
	}
	return status, nil
}

// All returns every node.
func (l *Registry) All(ctx context.Context) ([]store.NodeStatus, error) {
	all, err := l.store.Nodes(ctx)
	if err != nil {
		return nil, l.down(ctx, "nodes", err)
	}
	return all, nil
}

// SetAside is for how much longer this instance sends a node nothing because it did not confirm its jobs.
func (l *Registry) SetAside(id core.NodeID) time.Duration {
	n := l.fleet.Node(id)
	if n == nil {
		return 0
	}
	return n.SetAsideFor(l.fleet.Now())
}

// lockFor is how long an instance has to see to the jobs of a silent node before another may.
const lockFor = 5 * time.Second

// silent moves on the jobs of a node that is not heard any more. Of several instances that notice, one does; the others look
// after it, and find nothing to move. So does whoever meets a node that left in good order.
func (l *Registry) silent(ctx context.Context, id core.NodeID) error {
	lock, err := l.store.Lock(ctx, store.LockParams{Name: "silent:" + string(id), Holder: string(l.cfg.Instance), TTL: lockFor})
	if err != nil {
		return err
	}
	if !lock.Held {
		return fleet.ErrHandledElsewhere // look again, in case it dies over it
	}
	// Sightings are told in batches; the node's own entry knows at once.
	if now, err := l.store.Node(ctx, id); err == nil && now.Age < l.cfg.Presence {
		return l.store.Unlock(ctx, store.LockParams{Name: "silent:" + string(id), Holder: string(l.cfg.Instance)})
	}
	moved, err := l.jobs.NodeLost(ctx, id)
	if moved > 0 {
		l.log.Warn("node is silent; its jobs are moved", "node_id", id, "jobs", moved)
	}
	if err != nil {
		return err
	}
	return l.store.Unlock(ctx, store.LockParams{Name: "silent:" + string(id), Holder: string(l.cfg.Instance)})
}

// Forget removes nodes that have been silent for so long that nobody waits for them. It runs until the
// context ends.
func (l *Registry) EvictSilent(ctx context.Context) {
	for backoff.SleepJitter(ctx, l.cfg.Retention/10+time.Second, 0.1) {
		sightings, err := l.store.LastSeen(ctx)
		if err != nil {
			continue // the follower says so every second
		}
		for _, s := range sightings {
			if s.Age < l.cfg.Retention {
				continue
			}
			if err := l.store.Remove(ctx, store.RemoveParams{Node: s.Node, SilentFor: l.cfg.Retention}); err == nil {
				l.log.Info("node forgotten", "node_id", s.Node, "silent_for", s.Age.Round(time.Second).String())
			}
		}
	}
}

func unknownNode(id core.NodeID) *wire.Error {
	return wire.Wrong(wire.NotFound, "node_id", "no node %s is registered", id)
}

// down is the answer when the store does not.
func (l *Registry) down(ctx context.Context, operation string, err error) error {
	l.metrics.StoreErrors.WithLabelValues(operation).Inc()
	if ctx.Err() == nil {
		l.log.Warn("the store did not answer", "operation", operation, "error", err)
	}
	return wire.Errorf(wire.SchedulerDependencyDown, "the shared store does not answer: try again").RetryIn(time.Second)
}
