package scheduler_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestJobLeavesASilentNode: a job of a node that does not say anything any more, on an open connection, moves, whichever instance the node is
// connected to. When the node goes on it is told to stop, its late result is refused, and it gets jobs again.
func TestJobLeavesASilentNode(t *testing.T) {
	t.Parallel()
	for _, at := range []int{0, 1} {
		t.Run(fmt.Sprint("connected to instance ", at), func(t *testing.T) {
			t.Parallel()
			cfg := fastConfig()
			patient(&cfg)
			withoutRetries(&cfg)
			instances := startCluster(t, redistest.Start(t).URL(), cfg, nil)
			silent, _ := connectNode(t, instances[at], "n1", "", ownSecret)
			waitUntil(t, "both instances to see the node", waitLimit, func() bool { return instances.allSee("n1") })
			dispatch := func() (placed wire.DispatchResponse) {
				in := wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "es", AudioRef: "blob://a"}
				retryWhileDown(t, func() error { return instances[1].peer.Post(t.Context(), "/v1/dispatch/f2f", in, &placed) })
				return placed
			}
			answer := func(ws *fleet.Socket, typ string, a wire.JobAssign) {
				ws.Send(map[string]any{"type": typ, "job_id": a.JobID, "attempt_id": a.AttemptID, "result": map[string]any{"text_tgt": "hola"}})
			}
			for range 40 { // from now on the node is known to be fast
				dispatch()
				a := readAssignment(silent)
				answer(silent, "job_ack", a)
				answer(silent, "job_result", a)
			}
			placed := dispatch()
			first := readAssignment(silent)
			answer(silent, "job_ack", first)
			other, _ := connectNode(t, instances[0], "n2", "", ownSecret)
			if a := readAssignment(other); a.JobID != placed.JobID || a.AttemptID != 2 {
				t.Fatalf("assigned %+v", a)
			} else {
				answer(other, "job_result", a)
			}
			waitUntil(t, "the job to end", waitLimit, func() bool {
				job, err := instances[0].Store.Get(t.Context(), core.JobID(placed.JobID))
				return err == nil && job.State == core.StateDone && job.Node == "n2" && job.History[0].Reason == core.ReasonDisconnected
			})
			if n := instances[at].Fleet.Node("n1").Declared(); !n.Disconnected || n.SilentSince == 0 || n.Ejected() {
				t.Errorf("the silent node: %+v", n)
			}
			answer(silent, "job_result", first) // it goes on
			want := map[wire.FrameType]string{"job_cancel": "", "job_result_ack": string(wire.StaleAttempt)}
			for len(want) > 0 {
				_, text, err := silent.Read(t.Context())
				var m struct {
					Type  wire.FrameType `json:"type"`
					JobID string         `json:"job_id"`
					Code  string         `json:"error"`
				}
				if err == nil {
					err = json.Unmarshal(text, &m)
				}
				if err != nil {
					t.Fatal(err)
				}
				code, wanted := want[m.Type]
				if !wanted || m.JobID != placed.JobID {
					continue
				}
				if m.Code != code {
					t.Errorf("%s", text)
				}
				delete(want, m.Type)
			}
			waitUntil(t, "both instances to choose the node again", waitLimit, func() bool {
				for _, in := range instances {
					if n := in.Fleet.Node("n1"); n == nil || n.Declared().Disconnected || n.Declared().SilentSince != 0 {
						return false
					}
				}
				return true
			})
			waitUntil(t, "the count of silent nodes that were heard again", waitLimit, func() bool {
				return testutil.ToFloat64(instances[at].Metrics.SilentHeard) == 1
			})
			waitUntil(t, "the events", waitLimit, func() bool {
				page, err := journal.EventLog(instances[0].Store).Read(t.Context(), store.ReadLogParams{Limit: 100})
				kinds := make(map[store.EventKind]int)
				for _, e := range page.Entries {
					if e.Node == "n1" {
						kinds[e.Kind]++
					}
				}
				return err == nil && kinds[store.EventNodeSilent] == 1 && kinds[store.EventJobsMoved] == 1
			})
		})
	}
}
