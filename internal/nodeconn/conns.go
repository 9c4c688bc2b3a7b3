package nodeconn

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/tracing"
	"github.com/lingua-scheduler/lingua/wire"
)

// Options are the dependencies of Conns.
type Options struct {
	// HTTP delivers jobs to nodes that have no connection, by their callback URL.
	HTTP dispatch.Transport
	// Audio is where the audio of jobs is, URLs makes the addresses at which nodes elsewhere fetch it.
	Audio *audio.Buffer
	URLs  audio.URLs
	// Bus reaches other instances; Owner is the instance to which a node is connected, as far as this one knows.
	Bus   *bus.Bus
	Owner func(core.NodeID) core.InstanceID
	// ACKTimeout is after how long a job that another instance has not delivered goes to another node.
	ACKTimeout time.Duration
	// Tracer makes the traces of jobs; nil: there are none.
	Tracer *tracing.Tracer
}

// Conns is the nodes that are connected to this instance. It delivers jobs to them, and to all other nodes by their callback URL
// or through the instance to which they are connected.
type Conns struct {
	Options

	connections atomic.Uint64 // made so far

	mu      run.Mutex
	address string // where other instances and nodes reach this one
	nodes   map[core.NodeID]*conn
	lost    map[core.NodeID]*conn // connections that were lost and whose nodes may still come back
	locks   map[core.NodeID]*nodeLock

	admitting map[core.NodeID]chan struct{} // nodes that are being registered here; closed when they can be found in nodes
}

// nodeLock serialises decisions about whether a node is connected here.
type nodeLock struct {
	run.Mutex
	users int
}

var _ dispatch.Transport = (*Conns)(nil)

// NewConns makes an empty set of connections.
func NewConns(o Options) *Conns {
	return &Conns{
		Options: o, mu: run.NewMutex("node_conns"), nodes: make(map[core.NodeID]*conn), lost: make(map[core.NodeID]*conn),
		locks: make(map[core.NodeID]*nodeLock), admitting: make(map[core.NodeID]chan struct{}),
	}
}

// lockNode locks the decision about a node until the returned function is called: a node that reconnects and the end of its
// grace period must not both take effect.
func (c *Conns) lockNode(id core.NodeID) (unlock func()) {
	c.mu.Lock()
	l := c.locks[id]
	if l == nil {
		l = &nodeLock{Mutex: run.NewMutex("node_conn_node")}
		c.locks[id] = l
	}
	l.users++
	c.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		c.mu.Lock()
		defer c.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(c.locks, id)
		}
	}
}

// beginAdmit records that a node is being registered here, until the returned function is called. The caller has locked the node.
func (c *Conns) beginAdmit(id core.NodeID) (end func()) {
	ended := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.admitting[id] = ended
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.admitting, id)
		close(ended)
	}
}

// await returns the connection of a node; nil when it is not connected here. The store has a node before its connection can be found: if
// that has another epoch, or none is found, and the node is being registered here, it waits for the end of that.
func (c *Conns) await(ctx context.Context, id core.NodeID, epoch core.Epoch) *conn {
	c.mu.Lock()
	n, admitting := c.nodes[id], c.admitting[id]
	c.mu.Unlock()
	if admitting == nil || n != nil && n.currentEpoch() == epoch {
		return n
	}
	select {
	case <-admitting:
	case <-ctx.Done():
	}
	return c.get(id)
}

// Advertise sets the URL at which other instances and nodes reach this one, which is known when it listens.
func (c *Conns) Advertise(url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.address = url
}

// Address is the URL at which other instances and nodes reach this one.
func (c *Conns) Address() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.address
}

// newConnectionID makes an identifier that no other connection of this instance has. Connections to different instances
// differ in the node's epoch.
func (c *Conns) newConnectionID() uint64 { return c.connections.Add(1) }

// add makes a connection the node's current one, and returns the one that it replaces.
func (c *Conns) add(n *conn) (replaced *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	replaced = c.nodes[n.id]
	c.nodes[n.id] = n
	delete(c.lost, n.id)
	return replaced
}

// remove records that a connection is lost. It reports whether it was the node's current one.
func (c *Conns) remove(n *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[n.id] != n {
		return false
	}
	delete(c.nodes, n.id)
	c.lost[n.id] = n
	return true
}

// forget removes the connection of a node that has left: nothing waits for the node to come back.
func (c *Conns) forget(n *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[n.id] == n {
		delete(c.nodes, n.id)
	}
}

// isLost reports whether a lost connection was the node's last one: it has not reconnected here since.
func (c *Conns) isLost(n *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost[n.id] == n
}

// endGrace ends the grace period of a lost connection. It reports whether the node has not reconnected; only the first call
// for a connection does.
func (c *Conns) endGrace(n *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost[n.id] != n {
		return false
	}
	delete(c.lost, n.id)
	return true
}

// get is the connection of a node; nil when it is not connected here.
func (c *Conns) get(id core.NodeID) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[id]
}

// Len is how many nodes are connected to this instance.
func (c *Conns) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.nodes)
}

// MissedACKs calls fn once for each job that was sent to a node over its connection and of which the node has said nothing within the ACK
// timeout. Whether the store has recorded an acknowledgement makes no difference, nor which instance runs the job.
func (c *Conns) MissedACKs(fn func(dispatch.MissedACK)) {
	for _, n := range c.all() {
		missed := n.takeMissedACKs(c.ACKTimeout)
		if len(missed) > 0 && !n.ws.AllWritten() {
			continue // the node does not read, and may not have got them
		}
		for i := range missed {
			m := &missed[i]
			fn(dispatch.MissedACK{Job: core.JobID(m.job.JobID), Node: n.id, Attempt: m.job.AttemptID, Direction: m.direction})
		}
	}
}

func (c *Conns) all() []*conn { return c.appendTo(nil) }

// appendTo appends all connections to a list.
func (c *Conns) appendTo(list []*conn) []*conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	list = slices.Grow(list, len(c.nodes))
	for _, n := range c.nodes {
		list = append(list, n)
	}
	return list
}

// CloseIf closes the connections of the nodes whose names match, as socket.Conn.Close does.
func (c *Conns) CloseIf(match func(core.NodeID) bool, code wire.CloseCode, e *wire.Error) {
	for _, n := range c.all() {
		if match(n.id) {
			n.ws.Close(code, e)
		}
	}
}

// GoAway asks every node to connect to another instance within a time, and closes the connections that are left. It returns
// when all are closed.
func (c *Conns) GoAway(ctx context.Context, reason string, within time.Duration) {
	all := c.all()
	conns := make([]*socket.Conn, len(all))
	for i, n := range all {
		conns[i] = n.ws
	}
	socket.GoAway(ctx, conns, reason, "connect again", within)
}
