package server_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// shortPresence makes nodes count as gone after five seconds.
func shortPresence(c *config.Config) {
	n := &c.Scheduler.Nodes
	n.HeartbeatIntervalMS, n.PresenceTTLMS, c.Scheduler.Dispatch.HeartbeatStaleMS = 600, 5000, 5000
}

// TestNodeThatAnswersPingsIsPresent: a node that sends no heartbeats, and whose WebSocket library answers pings, stays registered, and
// gets jobs.
func TestNodeThatAnswersPingsIsPresent(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, shortPresence)
	n := ts.connectNode("slow")
	registered := ts.getNode("slow")
	jobs := make(chan object)
	go func() { // the library answers pings while it reads
		defer close(jobs)
		for {
			_, data, err := n.ws.Read(t.Context())
			if err != nil {
				return
			}
			if m := parseObject(t, data); m["type"] == "job_assign" {
				jobs <- m
			}
		}
	}()
	ts.eventually("keep the node present for two presences", func() bool {
		return ts.getNode("slow").LastHeartbeatMS >= registered.LastHeartbeatMS+2*5000
	})
	var d wire.DispatchResponse
	ts.eventually("dispatch to the node", func() bool { // on a busy machine it may be stale for a moment
		a := ts.post("/v1/dispatch/f2f", dispatchBody(object{"tgt_lang": "es"}))
		return a.status == http.StatusOK && json.Unmarshal(a.body, &d) == nil
	})
	if job, open := <-jobs; !open || job["job_id"] != d.JobID {
		t.Errorf("the connection is open: %v; got the job %v", open, job)
	}
	if now := ts.getNode("slow"); now.Epoch != registered.Epoch {
		t.Errorf("the node was registered again: %+v, was %+v", now, registered)
	}
}

// TestDeadConnectionIsClosed: a node that answers no pings counts as gone after the time of a presence, and its connection is aborted.
func TestDeadConnectionIsClosed(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, shortPresence)
	n := ts.connectNode("stopped") // from here on it reads nothing
	ts.eventually("close the connection", func() bool { return ts.getNode("stopped").Disconnected })
	for {
		if _, _, err := n.ws.Read(t.Context()); err != nil {
			return
		}
	}
}
