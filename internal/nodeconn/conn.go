package nodeconn

import (
	"maps"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/lockwait"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// conn is the connection of a registered node. Only Server.admit makes one.
type conn struct {
	ws *socket.Conn
	id core.NodeID
	// connection tells this connection of the node from its earlier and later ones.
	connection uint64
	secret     string // of the node's registration

	// Only the goroutine that reads the connection uses these: what records its actions, whether it has resumed its epoch, what the
	// node has declared so far, and the attempts whose results were accepted and whose speech is to come.
	audit    Audit
	resumed  bool
	declared core.Node
	speech   expectedSpeech

	mu         lockwait.Mutex[lockwait.NodeConn]
	epoch      core.Epoch
	remoteJobs map[wire.ActiveJob]remoteJob
}

// remoteJob is a job that another instance has given to the node.
type remoteJob struct {
	from        core.InstanceID
	assigned    time.Time
	partials    bool      // its session wants partial results
	lastPartial time.Time // when one was sent to the other instance
}

// partialInterval is the least time between two partial results of a job that are sent to another instance.
const partialInterval = 50 * time.Millisecond

const (
	maxRemoteJobs = 1024            // from this number on, jobs that must have ended are dropped
	remoteJobTTL  = 5 * time.Minute // after which a job must have ended
)

// addRemoteJob records which instance has given the node a job: its partial results are sent there.
func (n *conn) addRemoteJob(job wire.ActiveJob, from core.InstanceID, partials bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.remoteJobs == nil {
		n.remoteJobs = make(map[wire.ActiveJob]remoteJob)
	}
	now := time.Now()
	if len(n.remoteJobs) >= maxRemoteJobs {
		maps.DeleteFunc(n.remoteJobs, func(_ wire.ActiveJob, r remoteJob) bool { return now.Sub(r.assigned) > remoteJobTTL })
	}
	n.remoteJobs[job] = remoteJob{from: from, assigned: now, partials: partials}
}

// partialReceiver is the instance to which a partial result of a job is to be sent now; empty: to none.
func (n *conn) partialReceiver(job wire.ActiveJob) core.InstanceID {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, now := n.remoteJobs[job], time.Now()
	if !r.partials || now.Sub(r.lastPartial) < partialInterval {
		return ""
	}
	r.lastPartial = now
	n.remoteJobs[job] = r
	return r.from
}

// removeRemoteJob drops a job of another instance that has ended for the node.
func (n *conn) removeRemoteJob(job wire.ActiveJob) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.remoteJobs, job)
}

func (n *conn) currentEpoch() core.Epoch {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.epoch
}

func (n *conn) setEpoch(epoch core.Epoch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.epoch = epoch
}
