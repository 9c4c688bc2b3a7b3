package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Nodes is the write side of the fleet.
type Nodes interface {
	// Register starts a new epoch of a node: the maximum of the old epoch + 1 and the store's time in µs. Leases of jobs that the node
	// lists move to the new epoch. The others are returned as orphans, which the caller moves on and releases, except reservations
	// that are younger than Timing.ReservedTTL: their jobs may be on their way. A repeated call starts another epoch. It returns
	// ErrNameTaken, and changes nothing, if the node is present and p does not prove to be that node: see RequireSecret. A node is present
	// while it is not offline and was seen within Timing.Presence.
	Register(ctx context.Context, p RegisterParams) (Registration, error)
	// Heartbeat renews the presence of a node and its leases in one atomic step, and reports the leases and jobs that do not match.
	// Leases of listed jobs are renewed, whatever the clock says. A lease that two heartbeats in a row omit is an orphan; the first
	// omission may come from a heartbeat that was written before the job arrived. A node that never lists its jobs has its leases
	// renewed for as long as it may be working on them: Timing.ReservedTTL + Timing.Attempt after the reservation.
	Heartbeat(ctx context.Context, p HeartbeatParams) (HeartbeatResult, error)
	// Drain sets or clears an operator's decision that the node gets no new jobs, and returns the node. The decision survives
	// registrations. It returns ErrNoNode for a node that is not registered.
	Drain(ctx context.Context, p DrainParams) (*core.Node, error)
	// Admit decides how many slots of a node may be granted, and returns the node as it is then. The decision survives registrations,
	// drains and connections; leases beyond it stay and only shrink. A call with a lower fence than the one that last decided changes
	// nothing, and admitted is false. A call that repeats the decision in force changes only the fence, so that Since and Until stay. It
	// returns ErrNoNode for a node that is not registered, and core.ErrBadAdmission for a decision that contradicts itself.
	Admit(ctx context.Context, p AdmitParams) (n *core.Node, admitted bool, err error)
	// Connect records that a connection of a node was established or lost, and returns the node as it is then. A node whose
	// connection is lost gets no new jobs until it has another one or registers again; its last heartbeat and its leases stay as they
	// are. A report about another epoch, or about an earlier connection than the last one, changes nothing. It returns ErrNoNode for
	// a node that is not registered.
	Connect(ctx context.Context, p ConnectParams) (*core.Node, error)
	// KeepAlive renews the presence of a node and its leases, because it has answered a ping: it lives, and has said nothing. All else
	// stays as its last heartbeat left it. The verdict is OK, StaleEpoch, or UnknownNode if the node has to register again.
	KeepAlive(ctx context.Context, p KeepAliveParams) (Verdict, error)
	// Remove removes a node, its leases and its marks, if it is in p.Epoch and has been silent for p.SilentFor; otherwise it does
	// nothing. It reports whether the node is not registered any more.
	Remove(ctx context.Context, p RemoveParams) (removed bool, err error)
}

// NodeReader is the read side of the fleet.
type NodeReader interface {
	// Nodes returns registered nodes, silent ones included: all of them, or the ones with the ids, in the order of the ids and
	// without those that are not registered.
	Nodes(ctx context.Context, ids ...core.NodeID) ([]NodeStatus, error)
	// Overdue returns the nodes that last sent a heartbeat, or registered, at least after ago, and what is true of all the others; with 0
	// it returns all nodes, otherwise it costs little while few nodes are overdue, however many there are. It may lag behind Nodes by a
	// fraction of a second.
	Overdue(ctx context.Context, after time.Duration) (Overdue, error)
	// Digests returns a digest of every registered node, silent ones included: a node whose epoch and version the caller knows need not
	// be read. It lags behind Nodes by at most one heartbeat of the node; a node of which only the time is known has the epoch 0.
	Digests(ctx context.Context) ([]NodeDigest, error)
	// Watch calls fn with every change until the context ends, and then returns an error. Changes of one node come in their order, and
	// several that follow closely may come as one. That a silent node sends heartbeats again is a change too. Watch calls ready once no
	// change that is made after that call can be missed.
	Watch(ctx context.Context, ready func(), fn func(Change)) error
}

// ReadNode returns a node, ErrNoNode if it is not registered.
func ReadNode(ctx context.Context, r NodeReader, id core.NodeID) (NodeStatus, error) {
	found, err := r.Nodes(ctx, id)
	switch {
	case err != nil:
		return NodeStatus{}, err
	case len(found) == 0:
		return NodeStatus{}, ErrNoNode
	}
	return found[0], nil
}

// ActiveJob is an element of the list of jobs that a node sends: it has received the job, and its result is not acknowledged yet.
type ActiveJob struct {
	Job     core.JobID
	Attempt int
}

// Activity is what a node reports about its work. Absent is not empty: a node that does not list its jobs reports nothing about
// them, a node that lists none has none.
type Activity struct {
	Lists   bool
	Active  []ActiveJob
	Counts  bool // the node sent Current
	Current int  // everything that the node is running, ours or not
}

// RegisterParams describes a registration.
type RegisterParams struct {
	Node     core.Node // as declared; the store decides epoch, revision and drain
	Load     core.Load
	Activity Activity
	// Connection numbers the connection over which the node registers; 0: none. Connect uses it to tell the connections of an epoch
	// apart.
	Connection uint64
	// Returning says that the node was registered before and may be running work that this store does not know. Unless it lists its
	// jobs, it gets none for one attempt.
	Returning bool
	// RequireSecret refuses the registration of a node that is present with another secret (Node.SecretHash). A node that is present is
	// never registered for another tenant. One that takes the name of a node that is gone, without its secret or for another tenant, does
	// not get its jobs: those that it lists are returned in Cancels.
	RequireSecret bool
	// Drained says that an operator had drained the node before the store lost it. It is ignored for a node that the store knows.
	Drained bool
}

// ConnectParams says that a connection of a node was established or lost, or is silent.
type ConnectParams struct {
	Node       core.NodeID
	Epoch      core.Epoch
	Connection uint64 // counts up within an epoch; 0: none, the node does not need one
	Lost       bool
	// SilentFor is for how long nothing has come over a connection that counts as lost because it is silent; 0: it is not silent.
	SilentFor time.Duration
}

// KeepAliveParams names a node that has answered a ping.
type KeepAliveParams struct {
	Node  core.NodeID
	Epoch core.Epoch
	// Lists says that the node's last heartbeat has listed its jobs. Then the next one decides about all leases; otherwise those about
	// which the node says nothing end, as with its heartbeats, when it cannot be working on the jobs any more.
	Lists bool
}

// Registration is the answer to a registration.
type Registration struct {
	NodeStatus
	Known   bool         // the node was registered before
	Kept    []core.Lease // listed by the node: moved to the new epoch
	Orphans []core.Lease // not listed: their jobs have to be moved
	Strays  []core.Lease // listed without a lease: adopted, so that their slots count
	Cancels []ActiveJob  // listed with a lease that was revoked, or listed although they are another node's: the node should cancel these
	Young   bool         // as in HeartbeatResult
}

// HeartbeatParams describes a heartbeat.
type HeartbeatParams struct {
	Node     core.NodeID
	Epoch    core.Epoch // 0: the node does not send it
	Seq      uint64     // 0: the node does not number its heartbeats
	Repeat   bool       // the caller repeats the same heartbeat
	OnBehalf bool       // another party reports for the node: the time it was last seen stays as it is
	Known    *core.Node // the node as the caller knows it; the answer has the same pointer if the node has not changed
	Declared *core.Node // what Known becomes, nil: no change; ignored if the node has changed since
	Load     core.Load
	Activity Activity
}

// HeartbeatResult is the answer to a heartbeat. With any verdict but OK, nothing was changed.
type HeartbeatResult struct {
	Verdict    Verdict
	NodeStatus              // empty when the node is unknown
	Orphans    []core.Lease // the node does not have these jobs although it should
	Overdue    []core.Lease // older than an attempt may be
	Strays     []core.Lease // the node has these jobs although there was no lease
	Cancels    []ActiveJob  // the node should cancel these
	// WasSilent says that the node counted as gone until this heartbeat.
	WasSilent bool
	// Young says that this incarnation of the store is younger than a job may be: jobs that it does not know may be valid.
	Young bool
}

// RemoveParams names a node that is removed.
type RemoveParams struct {
	Node      core.NodeID
	Epoch     core.Epoch    // only in this epoch; 0: in any
	SilentFor time.Duration // only if it has been silent this long; 0: in any case
}

// DrainParams sets (Drained) or clears the drain of a node.
type DrainParams struct {
	Node    core.NodeID
	Drained bool
}

// AdmitParams describes a decision on how many slots of a node may be granted.
type AdmitParams struct {
	Node      core.NodeID
	Fence     int64          // of the lock that the caller holds
	Admission core.Admission // without Since and Until, which the store sets
	For       time.Duration  // how long it is meant to last, from now; 0: nothing is planned
}

// Validate returns core.ErrBadAdmission, with the reason, for a decision that no store accepts.
func (p *AdmitParams) Validate() error {
	switch {
	case p.Fence <= 0:
		return fmt.Errorf("%w: the fence is %d, which no lock has", core.ErrBadAdmission, p.Fence)
	case p.For < 0:
		return fmt.Errorf("%w: it is meant to last %v", core.ErrBadAdmission, p.For)
	}
	return p.Admission.Validate()
}

// Decision returns the decision as it is made at a time of the store's clock.
func (p *AdmitParams) Decision(now time.Time) core.Admission {
	a := p.Admission
	a.Since, a.Until = time.Time{}, time.Time{}
	if a == (core.Admission{}) && p.For == 0 {
		return a
	}
	a.Since = now
	if p.For > 0 {
		a.Until = now.Add(p.For)
	}
	return a
}

// Handle is a reference to where the store keeps a node. It is opaque to callers and saves a lookup. A missing or outdated handle
// is always correct.
type Handle interface {
	// Hint returns a word beside what a reservation reads first, so that a caller who will reserve the node in a moment can load it into
	// the cache before; nil: there is none.
	Hint() *atomic.Int64
}

// Occupancy is how many slots of a node are taken, and by what.
type Occupancy struct {
	Max      int // slots that the node declares
	Withheld int // slots of Max that may not be granted, because of the node's admission
	Reserved int
	Running  int
	Foreign  int // work that the node reports and that is not ours
	// Closed says that no job would be granted now, however many slots are free: because of the node's health, drain, connection,
	// silence or hold.
	Closed bool
	// Held says that the node is closed because it may be running work that the store does not know.
	Held bool
}

// InFlight is how many slots are taken.
func (o Occupancy) InFlight() int { return o.Reserved + o.Running + o.Foreign }

// Slots is how many slots may be granted, those that are taken included.
func (o Occupancy) Slots() int { return o.Max - o.Withheld }

// Ejected reports whether the node declares slots and none of them may be granted.
func (o Occupancy) Ejected() bool { return o.Max > 0 && o.Withheld == o.Max }

// Free reports whether one more job would be granted.
func (o Occupancy) Free() bool { return !o.Closed && o.InFlight() < o.Slots() }

// NodeStatus is a node as it is now.
type NodeStatus struct {
	Node   *core.Node
	Handle Handle
	Load   core.Load
	Age    time.Duration // since it was last seen
	At     time.Time     // when it was read, on the clock of the store, by which the times of the node are judged
	Occupancy
}

// LastSeen says how long ago a node was last seen.
type LastSeen struct {
	Node core.NodeID
	Age  time.Duration
}

// Overdue are the nodes that were last seen long ago.
type Overdue struct {
	Nodes      []LastSeen    // that are overdue
	Registered int           // nodes, those that are not overdue included
	Oldest     time.Duration // the highest age of the nodes that are not overdue; 0 if all are
}

// NodeDigest is what changes often about a node, and the version of the rest.
type NodeDigest struct {
	LastSeen
	Epoch    core.Epoch
	Version  core.Version
	Load     core.Load
	InFlight int // slots that were taken at its last heartbeat
	Slots    int // that could be granted then
}

// Change is one change of the fleet.
type Change struct {
	Node    core.NodeID
	Removed bool
	Now     NodeStatus // when not removed
	Mark    *Mark      // a service of the node was marked; Now is empty then
	// Revoked says that a revocation was added, and names no node. It only makes instances fast: their version shows every change.
	Revoked bool
	// Setting is the name of a setting that was announced, and names no node. It only makes instances fast, too: its version shows
	// every change.
	Setting string
	// Gap says that changes may have been missed: the watcher must compare the whole fleet.
	Gap bool
}
