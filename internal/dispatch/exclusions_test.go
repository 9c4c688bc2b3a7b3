package dispatch_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// TestExamplesOfExcludedNodes: a refused dispatch names a few of the nodes that could not take the job, at most once a second.
func TestExamplesOfExcludedNodes(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("full", 1)
		h.dispatch(withRequestID("r1"))
		if got := h.metrics.Exclusions.All(); len(got) != 0 {
			t.Errorf("a dispatch that was accepted has examples: %v", got)
		}
		for i := range 20 {
			h.addNode(fmt.Sprintf("ejected-%02d", i), 1)
			admit(h, core.NodeID(fmt.Sprintf("ejected-%02d", i)), 0)
		}
		h.dispatchRefused(withRequestID("r2"))
		got := h.metrics.Exclusions.All()
		if diff := cmp.Diff([]string{"EJECTED", "FULL"}, slices.Sorted(maps.Keys(got))); diff != "" {
			t.Fatalf("reasons (-want +got):\n%s", diff)
		}
		if n := len(got["EJECTED"].Nodes); n != telemetry.MaxExamples {
			t.Errorf("%d examples of ejected nodes, want %d", n, telemetry.MaxExamples)
		}
		if diff := cmp.Diff([]string{"full"}, got["FULL"].Nodes); diff != "" {
			t.Errorf("examples of full nodes (-want +got):\n%s", diff)
		}

		h.dispatchRefused(withRequestID("r3"))
		if now := h.metrics.Exclusions.All()["FULL"].At; !now.Equal(got["FULL"].At) {
			t.Error("examples were collected twice within a second")
		}
		time.Sleep(time.Second)
		h.dispatchRefused(withRequestID("r4"))
		if now := h.metrics.Exclusions.All()["FULL"].At; !now.After(got["FULL"].At) {
			t.Error("examples were not collected again after a second")
		}
		if diff := cmp.Diff(map[string]int64{"EJECTED": 60, "FULL": 3}, h.metrics.CandidatesRejected.All()); diff != "" {
			t.Errorf("the counts (-want +got):\n%s", diff)
		}
	})
}
