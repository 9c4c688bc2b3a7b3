// Package nodes is the node registry: registration, heartbeats, connection changes, drain, reports of unavailable services,
// silence and eviction. Each of these is one step in the store; this package makes the step, updates this instance's fleet,
// and passes the jobs that are affected to dispatch.
package nodes

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Config configures a Registry.
type Config struct {
	Instance  core.InstanceID
	Heartbeat time.Duration // how often nodes are asked to send a heartbeat
	Presence  time.Duration // how long a node counts as alive after a heartbeat
	Retention time.Duration // a node that has been silent for this long is evicted
	Events    *journal.Events
	// Unavailable takes the services that nodes report as unavailable; nil: they are not marked.
	Unavailable UnavailableQueue
	// Revocations says which nodes are revoked; nil: none.
	Revocations Revocations
	// RequireSecret lets a node that is present be registered again only with its secret.
	RequireSecret bool
}

// Store is the part of the store that this package uses.
type Store interface {
	store.Nodes
	store.NodeReader
	store.Marks
	store.Board
	store.LeaseReader
}

// JobMover moves or ends jobs that do not match what their node reports. A *dispatch.Reconciler does it.
type JobMover interface {
	RebindJobs(ctx context.Context, epoch core.Epoch, leases []core.Lease) ([]store.ActiveJob, error)
	ResolveStrays(ctx context.Context, epoch core.Epoch, leases []core.Lease, young bool) []store.ActiveJob
	MoveOrphans(leases []core.Lease)
	MoveOverdue(leases []core.Lease)
	MoveJobsOfNode(ctx context.Context, node core.NodeID) (moved int, err error)
}

// Reports takes what nodes report about their jobs. A *dispatch.Reports does it.
type Reports interface {
	CheckHolder(ctx context.Context, r dispatch.Report) (holds bool, err error)
	Fail(ctx context.Context, r dispatch.Report, reason core.Reason, detail string) error
}

// Slots offers the slots of nodes to requests that wait. A *waiting.Queue does it.
type Slots interface {
	SlotSeen(n *fleet.Node)
}

// Jobs are the parts of the dispatcher that this package uses.
type Jobs struct {
	Moves   JobMover
	Reports Reports
	Slots   Slots
}

// JobsOf returns the parts of a dispatcher.
func JobsOf(d *dispatch.Dispatcher) Jobs {
	return Jobs{Moves: d.Reconciler, Reports: d.Reports, Slots: d.Waiting}
}

// Registry registers nodes and follows their state.
type Registry struct {
	nameCheck
	cfg     Config
	store   Store
	fleet   *fleet.Fleet
	jobs    Jobs
	metrics *telemetry.Metrics
	log     *slog.Logger
	limits  keyLimits
}

// New makes a registry.
func New(cfg Config, st Store, fl *fleet.Fleet, jobs Jobs, m *telemetry.Metrics, log *slog.Logger) *Registry {
	if cfg.Unavailable == nil {
		cfg.Unavailable = noQueue{}
	}
	return &Registry{nameCheck: nameCheck{cfg.Revocations}, cfg: cfg, store: st, fleet: fl, jobs: jobs, metrics: m, log: log,
		limits: newKeyLimits()}
}

// Registered is the result of a registration.
type Registered struct {
	Node   *core.Node
	Secret string            // of the node, from now on
	Cancel []store.ActiveJob // jobs that the node should stop
	// WasSilent says that the node counted as gone until this heartbeat.
	WasSilent bool
}

// Caller is what is known of the sender of a change, beside what it declares.
type Caller struct {
	Connection uint64 // the number of its connection; 0: none
	MaxNodes   int    // how many nodes may be registered with its key; 0: any number
	Secret     string // that it shows; empty: none
}

// Register starts a new epoch of a node. A node without an id gets one.
func (r *Registry) Register(ctx context.Context, id core.NodeID, c core.Change, by Caller, a store.Activity) (Registered, error) {
	if id == "" {
		id = NewID()
	}
	c.Normalise()
	end, e := r.limits.begin(r.fleet, id, c.Key, by.MaxNodes)
	if e != nil {
		return Registered{}, e
	}
	defer end()
	return r.register(ctx, store.RegisterParams{Node: c.Declare(id), Load: c.ReportedLoad(), Activity: a, Connection: by.Connection},
		by.Secret)
}

// NewID makes an id for a node that has none.
func NewID() core.NodeID { return core.NodeID("node-" + uuid.Must(uuid.NewV7()).String()) }

// RestoreNode registers a connected node that the store has lost, with everything that it has declared so far.
func (r *Registry) RestoreNode(ctx context.Context, declared core.Node, secret string, connection uint64, a store.Activity) (Registered,
	error) {
	declared.Normalise()
	return r.register(ctx, store.RegisterParams{Node: declared, Load: core.UnknownLoad, Activity: a, Connection: connection,
		Returning: true}, secret)
}

// register registers a node with the secret that it shows, or with a new one if that is empty.
func (r *Registry) register(ctx context.Context, p store.RegisterParams, secret string) (Registered, error) {
	if e := r.CheckName(p.Node.ID); e != nil {
		r.metrics.NodeRegistration.WithLabelValues(telemetry.RegistrationRevoked).Inc()
		return Registered{}, e
	}
	if secret == "" {
		secret = rand.Text()
	}
	p.Node.SecretHash = core.HashSecret(secret)
	takenOver := r.hasOtherOwner(&p.Node)
	p.RequireSecret, p.Drained = r.cfg.RequireSecret, r.wasDrained(ctx, p.Node.ID)
	reply, err := store.Registration{}, store.ErrNameTaken
	if !p.RequireSecret || !usesNameOfOther(r.fleet, &p.Node) {
		reply, err = r.store.Register(ctx, p)
	}
	if errors.Is(err, store.ErrNameTaken) {
		r.metrics.NodeRegistration.WithLabelValues(telemetry.RegistrationRefused).Inc()
		return Registered{}, nameInUse(p.Node.ID)
	}
	if err != nil {
		r.metrics.NodeRegistration.WithLabelValues(telemetry.RegistrationError).Inc()
		return Registered{}, r.storeError(ctx, "register", err)
	}
	r.updateFleet(ctx, reply.NodeStatus)
	if takenOver {
		r.metrics.Takeovers.WithLabelValues(telemetry.TakeoverNode).Inc()
	}
	status := telemetry.RegistrationNew
	if reply.Known {
		status = telemetry.RegistrationAgain
	}
	r.metrics.NodeRegistration.WithLabelValues(status).Inc()
	r.log.Info("node registered", "node_id", p.Node.ID, "epoch", reply.Node.Epoch, "status", status,
		"max_concurrent_jobs", reply.Node.MaxJobs, "kept", len(reply.Kept), "orphans", len(reply.Orphans), "strays", len(reply.Strays))
	r.cfg.Events.Record(store.Event{Kind: store.EventNodeRegistered, Node: p.Node.ID, Tenant: p.Node.Tenant, Detail: status})
	if !reply.Known && reply.Node.Drained {
		r.log.Warn("the store had lost a node that an operator has drained; it is drained again", "node_id", p.Node.ID)
		r.cfg.Events.Record(store.Event{Kind: store.EventNodeDrained, Node: p.Node.ID, Tenant: p.Node.Tenant,
			Detail: "again, after the store lost it"})
	}

	// The jobs that the node still has belong to the new epoch before the node learns of it.
	cancel, err := r.jobs.Moves.RebindJobs(ctx, reply.Node.Epoch, reply.Kept)
	if err != nil {
		return Registered{}, err
	}
	cancel = append(append(cancel, reply.Cancels...), r.jobs.Moves.ResolveStrays(ctx, reply.Node.Epoch, reply.Strays, reply.Young)...)
	r.jobs.Moves.MoveOrphans(reply.Orphans)
	r.notifyFreeSlots(reply.Node.ID, reply.Occupancy)
	return Registered{Node: reply.Node, Secret: secret, Cancel: cancel}, nil
}

// wasDrained reports whether a node is remembered as drained. Another instance may have ended that since this one has read it.
func (r *Registry) wasDrained(ctx context.Context, id core.NodeID) bool {
	if !r.RemembersDrain(id) {
		return false
	}
	_ = r.revocations.Read(ctx) // after an error, what was read before counts
	return r.revocations.NodeDrained(id)
}

// RemembersDrain reports whether this instance remembers a node as drained, beside what the node's record says.
func (r *Registry) RemembersDrain(id core.NodeID) bool {
	return r.revocations != nil && r.revocations.NodeDrained(id)
}

// IsDrained reports whether a node is drained, as far as this instance knows; not known: it is not in view.
func (r *Registry) IsDrained(id core.NodeID) (drained, known bool) {
	n := r.fleet.Node(id)
	return n != nil && n.Declared().Drained, n != nil
}

// IsDisconnected reports whether a node counts as disconnected, as far as this instance knows.
func (r *Registry) IsDisconnected(id core.NodeID) (disconnected, known bool) {
	n := r.fleet.Node(id)
	return n != nil && n.Declared().Disconnected, n != nil
}

// nameRetry is when a node tries again whose name is in use.
const nameRetry = 2 * time.Second

// nameInUse is the answer to a node whose name another one uses.
func nameInUse(id core.NodeID) *wire.Error {
	return wire.FieldErrorf(wire.NameInUse, "node_id",
		"node %s is registered and present, and this is not its secret: send the token of its last registration, wait until it is gone, "+
			"or use another name", id).RetryIn(nameRetry)
}

// hasOtherOwner reports whether a node that registers was connected to another instance until now, as far as this instance
// knows.
func (r *Registry) hasOtherOwner(next *core.Node) bool {
	n := r.fleet.Node(next.ID)
	if n == nil || next.Owner == "" {
		return false
	}
	known := n.Declared()
	return known.Owner != "" && known.Owner != next.Owner && known.Health != core.HealthOffline
}

// Heartbeat is a heartbeat of a node.
type Heartbeat struct {
	Node     core.NodeID
	Epoch    core.Epoch // 0: the node did not send one
	Seq      uint64     // 0: the node does not number its heartbeats
	Change   core.Change
	Caller   Caller
	Activity store.Activity
	// Registers is set for a caller that was not shown to be a registered node: its heartbeat may only register the node.
	Registers bool
}

// Heartbeat handles a heartbeat and returns the jobs that the node should stop. A heartbeat that contains everything that a
// registration would registers an unknown node; the result then has the node.
func (r *Registry) Heartbeat(ctx context.Context, b Heartbeat) (Registered, error) {
	began := time.Now()
	defer func() {
		r.metrics.HeartbeatLatency.Observe(float64(time.Since(began)) / float64(time.Millisecond))
	}()
	if e := r.CheckName(b.Node); e != nil {
		return Registered{}, e
	}
	b.Change.Normalise()
	var known *core.Node
	if !b.Registers {
		var err error
		if known, err = r.knownDeclaration(ctx, b.Node); err != nil {
			return Registered{}, err
		}
	}
	for again := false; known != nil; again = true {
		result, err := r.storeHeartbeat(ctx, &b, known, again)
		if err != nil {
			return Registered{}, r.storeError(ctx, "heartbeat", err)
		}
		switch result.Verdict {
		case store.StaleEpoch:
			return Registered{}, wire.FieldErrorf(wire.StaleEpoch, "epoch",
				"node %s has registered again since epoch %d; use the epoch of its last registration", b.Node, b.Epoch)
		case store.TooLate:
			if ctx.Err() != nil {
				return Registered{}, r.storeError(ctx, "heartbeat", ctx.Err())
			}
			return Registered{}, nil // a later heartbeat arrived first and contains everything
		case store.OK:
			if !b.Change.IsContainedIn(result.Node) {
				known = result.Node // it had changed since this instance last read it: apply the change to that
				continue
			}
			if result.Node.Disconnected && (b.Caller.Connection != 0 || result.Node.Callback != "") {
				// It has a callback_url now, or the store has lost that it is connected again.
				if _, err := r.connect(ctx, store.ConnectParams{Node: b.Node, Epoch: result.Node.Epoch,
					Connection: b.Caller.Connection}); err != nil {
					return Registered{}, err
				}
			}
			return Registered{Cancel: r.applyHeartbeat(ctx, known, &result), WasSilent: result.WasSilent}, nil
		}
		known = nil
	}
	if !b.Change.IsFull() || b.Caller.Connection != 0 {
		// A connected node is registered by the instance that has its connection, from all that it has declared over it.
		return Registered{}, wire.FieldErrorf(wire.NotFound, "node_id",
			"no node %s is registered; register again with POST /v1/node/register", b.Node)
	}
	end, e := r.limits.begin(r.fleet, b.Node, b.Change.Key, b.Caller.MaxNodes)
	if e != nil {
		return Registered{}, e
	}
	defer end()
	return r.register(ctx, store.RegisterParams{Node: b.Change.Declare(b.Node), Load: b.Change.ReportedLoad(), Activity: b.Activity,
		Returning: true},
		b.Caller.Secret)
}

// knownDeclaration returns the declaration of a node, from the fleet or the store; nil if the node is unknown.
func (r *Registry) knownDeclaration(ctx context.Context, id core.NodeID) (*core.Node, error) {
	if n := r.fleet.Node(id); n != nil {
		return n.Declared(), nil
	}
	status, err := store.ReadNode(ctx, r.store, id)
	switch {
	case err == nil:
		return status.Node, nil
	case errors.Is(err, store.ErrNoNode):
		return nil, nil
	}
	return nil, r.storeError(ctx, "heartbeat", err)
}

// storeHeartbeat writes a heartbeat, with a new declaration if the change changes the known one.
func (r *Registry) storeHeartbeat(ctx context.Context, b *Heartbeat, known *core.Node, again bool) (store.HeartbeatResult, error) {
	p := store.HeartbeatParams{
		Node: b.Node, Epoch: b.Epoch, Seq: b.Seq, Repeat: again, Known: known, Load: b.Change.ReportedLoad(), Activity: b.Activity,
	}
	if !b.Change.IsContainedIn(known) {
		next := *known
		b.Change.Apply(&next.Declaration)
		p.Declared = &next
	}
	return r.store.Heartbeat(ctx, p)
}

// applyHeartbeat updates the fleet, passes the affected jobs on, and returns the jobs that the node should stop.
func (r *Registry) applyHeartbeat(ctx context.Context, known *core.Node, result *store.HeartbeatResult) []store.ActiveJob {
	if result.Node != known || r.fleet.Node(known.ID) == nil {
		r.updateFleet(ctx, result.NodeStatus)
	} else {
		r.fleet.RecordHeartbeat(known.ID, result.Load, result.Occupancy)
	}
	r.notifyFreeSlots(known.ID, result.Occupancy)
	r.jobs.Moves.MoveOrphans(result.Orphans)
	r.jobs.Moves.MoveOverdue(result.Overdue)
	return append(result.Cancels, r.jobs.Moves.ResolveStrays(ctx, result.Node.Epoch, result.Strays, result.Young)...)
}

// notifyFreeSlots wakes a request that waits for a slot, if the node has a free one.
func (r *Registry) notifyFreeSlots(id core.NodeID, o store.Occupancy) {
	if o.Free() {
		r.jobs.Slots.SlotSeen(r.fleet.Node(id))
	}
}

// updateFleet updates a node in this instance's fleet.
func (r *Registry) updateFleet(ctx context.Context, s store.NodeStatus) {
	if err := r.fleet.Admit(ctx, r.store, s); err != nil {
		r.log.Warn("could not read a node's marks", "node_id", s.Node.ID, "error", err)
	}
}

// Drain sets or clears the operator's order that a node gets no new jobs.
func (r *Registry) Drain(ctx context.Context, id core.NodeID, drained bool) (store.NodeStatus, error) {
	change := r.endDrain
	if drained {
		change = r.beginDrain
	}
	if err := change(ctx, id); err != nil {
		return store.NodeStatus{}, err
	}
	status, err := r.Node(ctx, id)
	// an instance that restores a loss of the store did not know of it yet
	if err == nil && drained && !status.Node.Drained && r.wasDrained(ctx, id) {
		if err = r.setDrained(ctx, id, true); err == nil {
			status, err = r.Node(ctx, id)
		}
	}
	if err == nil {
		r.updateFleet(ctx, status)
		r.log.Info("node drained or resumed", "node_id", id, "drained", drained)
		kind := store.EventNodeResumed
		if drained {
			kind = store.EventNodeDrained
		}
		r.cfg.Events.Record(store.Event{Kind: kind, Node: id, Tenant: status.Node.Tenant})
	}
	return status, err
}

// beginDrain drains a node. If the second step fails the node is drained, and the call is repeated.
func (r *Registry) beginDrain(ctx context.Context, id core.NodeID) error {
	if err := r.setDrained(ctx, id, true); err != nil {
		return err
	}
	return r.recordDrain(ctx, id, true)
}

// endDrain resumes a node. If the second step fails the node is drained, and the call is repeated.
func (r *Registry) endDrain(ctx context.Context, id core.NodeID) error {
	remembered := false
	if r.revocations != nil {
		if err := r.revocations.Read(ctx); err != nil { // another instance may have drained it just now
			return r.storeError(ctx, "drain", err)
		}
		if remembered = r.revocations.NodeDrained(id); remembered {
			if err := r.recordDrain(ctx, id, false); err != nil {
				return err
			}
		}
	}
	err := r.setDrained(ctx, id, false)
	var e *wire.Error
	if remembered && errors.As(err, &e) && e.Code == wire.NotFound {
		return wire.FieldErrorf(wire.NotFound, "node_id", "no node %s is registered; it was drained, and will not be when it registers", id)
	}
	return err
}

// setDrained sets or clears the drain of a node in the store.
func (r *Registry) setDrained(ctx context.Context, id core.NodeID, drained bool) error {
	_, err := r.store.Drain(ctx, store.DrainParams{Node: id, Drained: drained})
	switch {
	case errors.Is(err, store.ErrNoNode):
		return UnknownNode(id)
	case err != nil:
		return r.storeError(ctx, "drain", err)
	}
	return nil
}

// recordDrain makes all instances remember that a node is drained, or is not.
func (r *Registry) recordDrain(ctx context.Context, id core.NodeID, drained bool) error {
	if r.revocations == nil {
		return nil
	}
	if err := r.revocations.RecordDrain(ctx, id, drained); err != nil {
		return r.storeError(ctx, "drain", err)
	}
	return nil
}

// UnknownNode is the error for a node that is not registered.
func UnknownNode(id core.NodeID) *wire.Error {
	return wire.FieldErrorf(wire.NotFound, "node_id", "no node %s is registered", id)
}

// storeError counts and logs a store operation that failed, and returns the error for the caller.
func (r *Registry) storeError(ctx context.Context, operation string, err error) error {
	r.metrics.StoreErrors.WithLabelValues(operation).Inc()
	if ctx.Err() == nil {
		r.log.Warn("the store did not answer", "operation", operation, "error", err)
	}
	return store.Unavailable()
}
