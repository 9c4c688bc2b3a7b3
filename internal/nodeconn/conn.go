package nodeconn

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
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

	presence presence
	handling atomic.Bool // what has come is being handled, so that nothing else is read

	mu         run.Mutex
	epoch      core.Epoch
	remoteJobs map[wire.ActiveJob]remoteJob
	watch      watch
	link       link
}

// remoteJob is a job that another instance has given to the node.
type remoteJob struct {
	from     core.InstanceID
	assigned time.Time
	partials bool // its session wants partial results
}

const (
	maxRemoteJobs = 1024            // from this number on, jobs that must have ended are dropped
	remoteJobTTL  = 5 * time.Minute // after which a job must have ended
)

// recordSent records that a job is sent to the node, which has to acknowledge it. A probe counts for nothing.
func (n *conn) recordSent(a *wire.JobAssign) {
	if a.Probe {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watch.recordSent(a, time.Now())
}

// recordAnswer records that the node has sent something about a job.
func (n *conn) recordAnswer(job wire.ActiveJob) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watch.recordAnswer(job, time.Now())
}

// takeMissedACKs removes the jobs of which the node has said nothing within a time, and returns them.
func (n *conn) takeMissedACKs(within time.Duration) []sentJob {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.watch.takeMissedACKs(within, time.Now())
}

// recordPong records that the node has answered a ping.
func (n *conn) recordPong() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watch.recordPong(time.Now())
}

// recordEnd records that a job has ended for the node, or never reached it.
func (n *conn) recordEnd(job wire.ActiveJob) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watch.remove(job)
	delete(n.remoteJobs, job)
}

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

// admitPartial reports whether a partial result of a job may be passed on now.
func (n *conn) admitPartial(job wire.ActiveJob) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.watch.admitPartial(job, time.Now())
}

// partialReceiver is the instance that wants the partial results of a job; empty: there is none.
func (n *conn) partialReceiver(job wire.ActiveJob) core.InstanceID {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.remoteJobs[job]; r.partials {
		return r.from
	}
	return ""
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
