package dispatch_test

import (
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// TestFreeNodeOutsideAFullRegion: the only free node gets the job although it is of another region than the preferred one, which has more
// nodes than a selection probes.
func TestFreeNodeOutsideAFullRegion(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		for _, lease := range h.fillNodes(700, inRegion("eu")) {
			h.fleet.Observe(h.fleet.Node(lease.Node), 1, 1, h.fleet.Now())
		}
		h.addNode("us-1", 1, inRegion("us"))
		for i := range 10 {
			p := h.acknowledge(h.dispatch(withRequestID(fmt.Sprint("r", i)), func(s *core.Spec) { s.Options.PreferredRegion = "eu" }))
			if p.Node != "us-1" {
				t.Fatalf("placed on %s, which is full", p.Node)
			}
			if err := h.done(p); err != nil {
				t.Fatal(err)
			}
		}
	})
}
