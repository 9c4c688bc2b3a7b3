package dispatch_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// refusalObserver records the refusals that it is told of.
type refusalObserver struct {
	mu       sync.Mutex
	refusals []wire.Code
	waited   []time.Duration
}

func (*refusalObserver) Acknowledged(core.NodeID)                              {}
func (*refusalObserver) AttemptEnded(core.NodeID, core.Direction, core.Reason) {}
func (*refusalObserver) NodeSelected(core.Decision)                            {}
func (*refusalObserver) JobEnded(*core.Job)                                    {}
func (o *refusalObserver) RequestRefused(_ core.Direction, code wire.Code, waited time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refusals, o.waited = append(o.refusals, code), append(o.waited, waited.Truncate(100*time.Millisecond))
}

// TestEveryRefusalIsObserved checks that a request that is refused at once and one that is refused after a wait are observed once each.
func TestEveryRefusalIsObserved(t *testing.T) {
	t.Parallel()
	observer := new(refusalObserver)
	runWith(t, func(c *dispatch.Config) { c.Observer = observer }, func(h *harness) {
		if _, err := h.dispatcher.Dispatch(h.t.Context(), dispatch.Request{Spec: spec(withRequestID("at-once"))}); err == nil {
			t.Fatal("a request without a node was accepted")
		}
		h.addNode("node-a", 1)
		h.acknowledge(h.dispatch())
		waits := h.startWaiting(h.t.Context(), "waits", 3*time.Second)
		if diff := cmp.Diff(map[core.Direction]int{spec().Direction: 1}, h.dispatcher.Waiting.WaitingByDirection()); diff != "" {
			t.Errorf("requests that wait (-want +got):\n%s", diff)
		}
		h.advance(4*time.Second, "node-a")
		if !waits.hasEnded() || waits.err == nil {
			t.Fatal("a request that waits was not refused")
		}
		if diff := cmp.Diff([]wire.Code{wire.NoCapableNode, wire.AllCandidatesFullOrFailed}, observer.refusals); diff != "" {
			t.Errorf("refusals (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{0, 3 * time.Second}, observer.waited); diff != "" {
			t.Errorf("waited (-want +got):\n%s", diff)
		}
		if n := len(h.dispatcher.Waiting.WaitingByDirection()); n != 0 {
			t.Errorf("%d directions have requests that wait", n)
		}
	})
}
