package dispatch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
)

func withSpread(c *dispatch.Config) { c.SpreadWindow = 30 * time.Second }

func TestJobsOfASessionAreSpread(t *testing.T) {
	t.Parallel()
	runWith(t, withSpread, func(h *harness) {
		h.addNode("node-a", 100)
		h.addNode("node-b", 100)
		var last core.NodeID
		for i := range 40 {
			p := h.dispatch(withRequestID(fmt.Sprint("req-", i)))
			if p.Node == last {
				t.Fatalf("job %d went to %s, like the one before", i, last)
			}
			last = p.Node
		}
		if _, err := h.registry.Drain(h.t.Context(), "node-a", true); err != nil {
			t.Fatal(err)
		}
		for i := range 5 { // without another node the last one is chosen
			if p := h.dispatch(withRequestID(fmt.Sprint("alone-", i))); p.Node != "node-b" {
				t.Errorf("placed on %s, want node-b", p.Node)
			}
		}
	})
}

// TestJobsAreSpreadOverInstances: HTTP requests of one session reach two instances in turn, which share the last node.
func TestJobsAreSpreadOverInstances(t *testing.T) {
	t.Parallel()
	runWith(t, withSpread, func(h *harness) {
		h.addNode("node-a", 100)
		h.addNode("node-b", 100)
		instances := []*dispatch.Dispatcher{h.dispatcher, h.otherInstance(withSpread)}
		var last core.NodeID
		for i := range 40 {
			p := h.dispatchAcknowledged(instances[i%2], spec(withRequestID(fmt.Sprint("req-", i))))
			if p.Node == last {
				t.Fatalf("job %d went to %s, like the one before on the other instance", i, last)
			}
			last = p.Node
		}
		time.Sleep(31 * time.Second) // the window
		h.heartbeat("node-a", nil)
		h.heartbeat("node-b", nil)
		if e, err := h.dispatcher.Explain(h.t.Context(), dispatch.ExplainParams{Spec: spec(), Limit: 10}); err != nil ||
			e.Reasons[core.ReasonSpread] != 0 {
			t.Errorf("after the window: %v, %v", e.Reasons, err)
		}
	})
}

// TestUtteranceAvoidsTheNodeBefore: a session names the node of its last utterance, which the job and its retries avoid within the
// window. Nothing is read from the store for it.
func TestUtteranceAvoidsTheNodeBefore(t *testing.T) {
	t.Parallel()
	runWith(t, withSpread, func(h *harness) {
		for _, id := range []string{"node-a", "node-b", "node-c"} {
			h.addNode(id, 100)
		}
		dispatchAfter := func(i int, ago time.Duration) dispatch.Placement {
			t.Helper()
			s := spec(withRequestID(fmt.Sprint("req-", i)), func(s *core.Spec) { s.Utterance.Turn = int64(i) })
			p, err := h.dispatcher.Dispatch(t.Context(), dispatch.Request{
				Spec: s, Previous: dispatch.PreviousJob{Node: "node-a", At: time.Now().Add(-ago)},
			})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		for i := range 30 {
			p := dispatchAfter(i+1, time.Second)
			if p.Node == "node-a" {
				t.Fatalf("job %d went to the node before", i)
			}
			if err := h.fail(p, core.ReasonNodeFailed); err != nil {
				t.Fatal(err)
			}
			h.advance(time.Second, "node-a", "node-b", "node-c")
			retry := h.job(p.Job)
			if retry.Node == "node-a" || retry.Attempt != 2 {
				t.Fatalf("job %d was retried on %s, attempt %d", i, retry.Node, retry.Attempt)
			}
			if err := h.done(h.placementOf(p.Job)); err != nil {
				t.Fatal(err)
			}
			h.advance(time.Minute, "node-a", "node-b", "node-c") // until the node that failed is no longer set aside
		}
		used := false
		for i := range 100 {
			used = used || dispatchAfter(1000+i, time.Minute).Node == "node-a"
		}
		if !used {
			t.Error("the node before is avoided after the window")
		}
	})
}

// TestSuccessionsAreCounted: the metric shows the share of jobs that went to the node of the job before, whether or not jobs are spread.
func TestSuccessionsAreCounted(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 100)
		for i, before := range []core.NodeID{"", "node-a", "node-b", "node-a"} {
			s := spec(withRequestID(fmt.Sprint("req-", i)), func(s *core.Spec) { s.Utterance.Turn = int64(i + 1) })
			if _, err := h.dispatcher.Dispatch(t.Context(),
				dispatch.Request{Spec: s, Previous: dispatch.PreviousJob{Node: before, At: time.Now()}}); err != nil {
				t.Fatal(err)
			}
		}
		want := `
# HELP lingua_session_successions_total Jobs whose session had a job before, by whether they were given to the same node.
# TYPE lingua_session_successions_total counter
lingua_session_successions_total{same_node="false"} 1
lingua_session_successions_total{same_node="true"} 2
`
		if err := testutil.GatherAndCompare(h.metrics.Registry, strings.NewReader(want), "lingua_session_successions_total"); err != nil {
			t.Error(err)
		}
	})
}
