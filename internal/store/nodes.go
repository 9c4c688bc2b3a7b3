package store

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Nodes is the write side of the fleet.
type Nodes interface {
	// Register begins a new life of a node. Leases of jobs the node lists move to the new epoch; the others
	// come back as orphans, to be handled and released by the caller.
	Register(ctx context.Context, p RegisterParams) (Registration, error)
	// Heartbeat renews the node's presence and its leases in one step and says what does not fit.
	Heartbeat(ctx context.Context, p HeartbeatParams) (HeartbeatResult, error)
	// Drain sets or clears the operator's wish that the node gets nothing new. It outlives registrations.
	Drain(ctx context.Context, p DrainParams) (*core.Node, error)
	// Connect notes that a node's connection was made or lost. A node whose connection is lost is granted nothing until
	// it has another one or registers again; when it was last heard and its leases stay as they are. Word of another epoch,
	// or of an earlier connection than the one that was made last, changes nothing. It returns the node as it is then.
	Connect(ctx context.Context, p ConnectParams) (*core.Node, error)
	// Remove forgets a node and its leases, unless it was heard more lately than that.
	Remove(ctx context.Context, p RemoveParams) error
}

// Census is the read side of the fleet.
type NodeReader interface {
	// Node returns one node, ErrNoNode if it is not registered.
	Node(ctx context.Context, id core.NodeID) (NodeStatus, error)
	// Nodes returns registered nodes, also those that are silent: those that are named, in their order and without those
	// that are not known, or every one.
	Nodes(ctx context.Context, ids ...core.NodeID) ([]NodeStatus, error)
	// Sightings returns how long ago each node was last heard.
	LastSeen(ctx context.Context) ([]LastSeen, error)
	// Watch calls fn with every change until the context ends, in order for each node; changes of one node that
	// come fast may be told as one. It calls ready once no change made after that call can be missed.
	Watch(ctx context.Context, ready func(), fn func(Change)) error
}

// ActiveJob is one line of the list of jobs a node says it has: received, and the result not yet acknowledged.
type ActiveJob struct {
	Job     core.JobID
	Attempt int
}

// Activity is what a node says it is doing. Absent is not empty: a node that does not list says nothing
// about its jobs, a node that lists none has none.
type Activity struct {
	Lists   bool
	Active  []ActiveJob
	Counts  bool // CurrentJobs was given
	Current int  // everything the node is running, ours or not
}

// RegisterParams describes a registration.
type RegisterParams struct {
	Node     core.Node // as declared; epoch, revision and drain are the store's
	Load     core.Load
	Activity Activity
	// Connection names the connection over which the node registers, 0: none. Of several in one epoch the store can tell
	// by it which of them was lost.
	Connection uint64
	// Returning says that the node spoke as one that was registered before, so that it may still be running
	// work this store knows nothing of. Unless it lists its jobs it is granted nothing for one attempt.
	Returning bool
}

// ConnectParams says that a connection of a node was made or lost.
type ConnectParams struct {
	Node       core.NodeID
	Epoch      core.Epoch
	Connection uint64 // counts up within an epoch; 0: none, the node is reached otherwise
	Lost       bool
}

// Registration is the answer to a registration.
type Registration struct {
	NodeStatus
	Known   bool         // the store knew it from an earlier life of the node
	Kept    []core.Lease // listed by the node: moved to the new epoch
	Orphans []core.Lease // not listed: their jobs have to be moved on
	Strays  []core.Lease // listed, but no lease was known: adopted so that their slots count
	Young   bool         // as in Pulse
}

// HeartbeatParams describes a heartbeat.
type HeartbeatParams struct {
	Node     core.NodeID
	Epoch    core.Epoch // 0: the node does not say
	Seq      uint64     // 0: the node does not count its heartbeats
	Again    bool       // the caller says the same heartbeat again
	Unheard  bool       // somebody else says it of the node: when the node was last heard stays as it is
	Known    *core.Node // the node as the caller knows it; the answer names the same one if it has not changed
	Declared *core.Node // what Known should become, nil: as it is; left aside if the node has changed since
	Load     core.Load
	Activity Activity
}

// Pulse is the answer to a heartbeat. Anything but OK changed nothing.
type HeartbeatResult struct {
	Verdict    Verdict
	NodeStatus              // empty when the node is unknown
	Orphans    []core.Lease // the node does not have these although it should
	Overdue    []core.Lease // past their attempt's deadline
	Strays     []core.Lease // the node has these although no lease was known
	Cancels    []ActiveJob  // the node should stop these
	// Young says that the store began less than a job's time ago: what it does not know may still be right.
	Young bool
}

// RemoveParams names a node that is to be forgotten if it has been silent for at least as long; 0 in any case.
type RemoveParams struct {
	Node      core.NodeID
	SilentFor time.Duration
}

// DrainParams says what the operator wants of a node.
type DrainParams struct {
	Node    core.NodeID
	Drained bool
}

// Handle is the store's own note of where it keeps a node. Passing it back saves a search; passing none, or
// one that is out of date, does no harm. Only the store that made it looks inside.
type Handle interface {
	// Fetch hints that the node will be reserved in a moment. It never waits.
	Fetch()
}

// Occupancy is how much of a node is taken.
type Occupancy struct {
	Max      int
	Reserved int
	Running  int
	Foreign  int // work the node reports that is not ours
	// Closed says that nothing would be granted now, whatever is free: the node's health, its silence or its
	// hold forbids it.
	Closed bool
	// Held says that it is closed because the node may be running work from before the store knew it.
	Held bool
}

// InFlight is what counts against the maximum.
func (o Occupancy) InFlight() int { return o.Reserved + o.Running + o.Foreign }

// Free reports whether one more job would be granted.
func (o Occupancy) Free() bool { return !o.Closed && o.InFlight() < o.Max }

// NodeStatus is a node as the store sees it now.
type NodeStatus struct {
	Node   *core.Node
	Handle Handle
	Load   core.Load
	Age    time.Duration // since it was last heard
	Occupancy
}

// Sighting is when a node was last heard.
type LastSeen struct {
	Node core.NodeID
	Age  time.Duration
}

// Change is one change of the fleet.
type Change struct {
	Node    core.NodeID
	Removed bool
	Now     NodeStatus // when not removed
	Mark    *Mark      // when a service of the node was marked; Now is empty then
	// Gap says that changes may have been missed: whoever follows must compare the whole fleet.
	Gap bool
}
