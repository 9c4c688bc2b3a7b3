package nodeconn

import (
	"maps"
	"slices"
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

	presence presence

	mu         lockwait.Mutex[lockwait.NodeConn]
	epoch      core.Epoch
	remoteJobs map[wire.ActiveJob]remoteJob
	unanswered []sentJob // jobs that were sent over this connection and of which the node has said nothing, the latest last
}

// sentJob is a job that was sent to the node.
type sentJob struct {
	job       wire.ActiveJob
	direction core.Direction
	sent      time.Time
	late      bool // at the last check it was late
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

// recordSent records that a job is sent to the node, which has to acknowledge it. A probe counts for nothing.
func (n *conn) recordSent(a *wire.JobAssign) {
	if a.Probe {
		return
	}
	j := sentJob{
		job:       wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID},
		direction: core.Direction{Src: core.Lang(a.SrcLang), Tgt: core.Lang(a.TgtLang)}, sent: time.Now(),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unanswered = append(n.unanswered, j)
}

// recordAnswer records that the node has sent something about a job, or that the job was not sent to it.
func (n *conn) recordAnswer(job wire.ActiveJob) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.IndexFunc(n.unanswered, func(j sentJob) bool { return j.job == job }); i >= 0 {
		n.unanswered = slices.Delete(n.unanswered, i, i+1)
	}
}

// takeMissedACKs removes the jobs of which the node has said nothing within a time, and returns them. A job is taken when a second check
// finds it late: what nodes sent while this process was suspended is read before.
func (n *conn) takeMissedACKs(within time.Duration) (missed []sentJob) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unanswered = slices.DeleteFunc(n.unanswered, func(j sentJob) bool {
		if j.late {
			missed = append(missed, j)
		}
		return j.late
	})
	for i := range n.unanswered {
		n.unanswered[i].late = time.Since(n.unanswered[i].sent) >= within
	}
	return missed
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
