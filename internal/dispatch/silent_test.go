package dispatch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/dispatch"
)

// watchSilent runs the check for silent nodes until the test ends.
func (h *harness) watchSilent() (stop func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan struct{})
	go func() {
		h.dispatcher.WatchSilent(ctx)
		close(ended)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// runJob dispatches a job, to a node if one is named, which acknowledges it, and ends it after a while.
func (h *harness) runJob(request, node string, took time.Duration) dispatch.Placement {
	h.t.Helper()
	p := h.startJob(request, node)
	time.Sleep(took)
	if err := h.done(p); err != nil {
		h.t.Fatal(err)
	}
	return p
}

// startJob dispatches a job, to a node if one is named, which acknowledges it.
func (h *harness) startJob(request, node string) dispatch.Placement {
	h.t.Helper()
	p := h.dispatch(withRequestID(request), preferNode(node))
	if err := h.ack(p); err != nil {
		h.t.Fatal(err)
	}
	return p
}

// TestSilentNodeIsSetAside: a node with two jobs about which it says nothing, for much longer than jobs usually take, gets no others while
// there are other nodes.
func TestSilentNodeIsSetAside(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		defer h.watchSilent()()
		h.addNode("node-a", 10)
		h.addNode("node-b", 20)
		for i := range 20 {
			h.runJob(fmt.Sprint("usual-", i), "node-b", 200*time.Millisecond)
		}
		h.startJob("silent-1", "node-a")
		h.advance(3*time.Second, "node-a", "node-b")
		if h.registry.SetAsideFor("node-a") != 0 {
			t.Error("a node is set aside because of one job")
		}
		h.startJob("silent-2", "node-a")
		h.advance(time.Second, "node-a", "node-b")
		if h.registry.SetAsideFor("node-a") != 0 {
			t.Error("a node is set aside although one of its two jobs is not late")
		}
		h.advance(time.Second, "node-a", "node-b")
		for i := range 20 {
			if p := h.startJob(fmt.Sprint("other-", i), ""); p.Node != "node-b" {
				t.Fatalf("the silent node got job %d", i)
			}
		}
		// Node-b is full now: a node that is set aside is chosen rather than a refusal.
		if p := h.startJob("last", ""); p.Node != "node-a" {
			t.Errorf("placed on %s, want node-a", p.Node)
		}
	})
}

// TestNodeThatSendsPartialsIsNotSilent: jobs that take long are no reason to set a node aside while it sends partial results of them.
func TestNodeThatSendsPartialsIsNotSilent(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		defer h.watchSilent()()
		h.addNode("node-a", 10)
		h.addNode("node-b", 10)
		h.runJob("usual", "node-b", 200*time.Millisecond)
		first, second := h.startJob("long-1", "node-a"), h.startJob("long-2", "node-a")
		for range 8 {
			h.advance(time.Second, "node-a", "node-b")
			h.dispatcher.RecordPartial(first.Job, first.Attempt)
			if h.registry.SetAsideFor("node-a") != 0 {
				t.Fatal("a node that sends partial results is set aside")
			}
		}
		h.dispatcher.RecordPartial(second.Job, second.Attempt+1) // of another attempt
		h.dispatcher.RecordPartial("job-unknown", 1)
		h.advance(2*time.Second, "node-a", "node-b")
		if h.registry.SetAsideFor("node-a") == 0 {
			t.Error("the node is not set aside after it stopped sending partial results")
		}
		if err := h.done(first); err != nil {
			t.Fatal(err)
		}
		h.advance(2*time.Second, "node-a", "node-b")
		if h.registry.SetAsideFor("node-a") != 0 {
			t.Error("the node is still set aside after it ended one of its two jobs")
		}
	})
}

// TestNoNodeIsSilentBeforeAJobHasEnded: until it is known how long jobs take, no node is set aside.
func TestNoNodeIsSilentBeforeAJobHasEnded(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		defer h.watchSilent()()
		h.addNode("node-a", 10)
		h.startJob("one", "node-a")
		h.startJob("two", "node-a")
		h.advance(10*time.Second, "node-a")
		if h.registry.SetAsideFor("node-a") != 0 {
			t.Error("a node is set aside although no job has ended yet")
		}
	})
}

// TestDurationEstimate: the estimate is near the duration that 95 % of the jobs do not exceed, and follows it when it changes.
func TestDurationEstimate(t *testing.T) {
	t.Parallel()
	d := dispatch.NewDurations()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, mean := range []float64{0.1, 2, 0.5} {
		var sum float64
		const jobs = 4000
		for i := range jobs {
			d.Observe(time.Duration(rng.ExpFloat64() * mean * float64(time.Second)))
			if i >= jobs/2 {
				sum += d.P95().Seconds()
			}
		}
		want := 3.0 * mean // ln 20 = 2.996
		if got := sum / (jobs / 2); got < 0.75*want || got > 1.25*want {
			t.Errorf("with a mean of %v s the estimate is %.2f s on average, want about %.2f s", mean, got, want)
		}
	}
}
