package dispatch_test

import (
	"testing"
	"testing/synctest"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// TestProbeOnProbation checks that a probe does not make a node on probation, whose one slot is taken, seem to have free ones.
func TestProbeOnProbation(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 4)
		a := core.Admission{Limited: true, Slots: 1, Reason: core.AdmissionFailing, Times: 1}
		declared, _, err := h.mem.Admit(h.t.Context(), store.AdmitParams{Node: "node-a", Admission: a, Fence: 1})
		if err != nil {
			t.Fatal(err)
		}
		h.fleet.Redeclare(declared)
		synctest.Wait() // the follower has read the node: later it would make it seem as empty as it was then
		h.dispatch()
		n := h.fleet.Node("node-a")
		want := func(when string, jobs int) {
			t.Helper()
			if got, known := h.fleet.InFlight(n, h.fleet.Now()); !known || got != jobs {
				t.Errorf("%s: %d jobs seem to be in flight (known: %t), want %d", when, got, known, jobs)
			}
		}
		want("before", 1)
		out, err := h.probe(probeOf("node-a"), func(p dispatch.Placement) {
			want("meanwhile", 2)
			if err := h.done(p); err != nil {
				t.Error(err)
			}
		})
		wantProbe(t, out, err, core.StateDone, "")
		want("afterwards", 1)
	})
}
