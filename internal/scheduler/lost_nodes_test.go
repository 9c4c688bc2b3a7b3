package scheduler_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestJobLeavesALostNode: the instance that runs a job moves it long before the grace period is over, whichever instance its node was connected to.
func TestJobLeavesALostNode(t *testing.T) {
	t.Parallel()
	cfg := fastConfig()
	patient(&cfg)
	withoutRetries(&cfg)
	cfg.Scheduler.Sessions.DisconnectGraceMS = 60_000
	instances := startCluster(t, redistest.Start(t).URL(), cfg, nil)
	for _, at := range []int{0, 1} {
		lost, _ := connectNode(t, instances[at], "n1", "", ownSecret)
		waitUntil(t, "both instances to see the node", waitLimit, func() bool { return instances.allSee("n1") })
		in := wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "es", AudioRef: "blob://a"}
		var placed wire.DispatchResponse
		retryWhileDown(t, func() error { return instances[1].peer.Post(t.Context(), "/v1/dispatch/f2f", in, &placed) })
		if a := readAssignment(lost); a.JobID != placed.JobID || a.AttemptID != 1 {
			t.Fatalf("assigned %+v", a)
		}
		other, _ := connectNode(t, instances[0], "n2", "", ownSecret)
		waitUntil(t, "both instances to see the other node", waitLimit, func() bool { return instances.allSee("n2") })
		_ = lost.CloseNow()
		if a := readAssignment(other); a.JobID != placed.JobID || a.AttemptID != 2 {
			t.Errorf("node connected to instance %d: assigned %+v", at, a)
		}
		job, err := instances[0].Store.Get(t.Context(), core.JobID(placed.JobID))
		if err != nil || job.History[0].Reason != core.ReasonDisconnected {
			t.Errorf("%v: %+v", err, job)
		}
		other.Send(map[string]any{"type": "job_result", "job_id": placed.JobID, "attempt_id": 2, "result": map[string]any{"text_tgt": "hola"}})
		waitUntil(t, "the job to end", waitLimit, func() bool {
			job, err = instances[0].Store.Get(t.Context(), core.JobID(placed.JobID))
			return err == nil && job.State == core.StateDone
		})
		_ = other.CloseNow()
		for _, id := range []core.NodeID{"n1", "n2"} {
			retryWhileDown(t, func() error {
				_, err := instances[1].Nodes.Remove(t.Context(), id)
				return err
			})
		}
		waitUntil(t, "both instances to forget the nodes", waitLimit, func() bool {
			for _, in := range instances {
				if in.Fleet.Node("n1") != nil || in.Fleet.Node("n2") != nil {
					return false
				}
			}
			return true
		})
	}
}

// readAssignment reads messages of a node until an assignment.
func readAssignment(ws *fleet.Socket) (a wire.JobAssign) {
	ws.Await(&a)
	return a
}
