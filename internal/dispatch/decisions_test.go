package dispatch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/stats"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// rememberIn is an observer that remembers jobs and decisions.
type rememberIn struct{ ring *stats.JobRing }

func (r rememberIn) Acknowledged(core.NodeID)                                {}
func (r rememberIn) AttemptEnded(core.NodeID, core.Direction, core.Reason)   {}
func (r rememberIn) NodeSelected(d core.Decision)                            { r.ring.AddDecision(&d) }
func (r rememberIn) JobEnded(job *core.Job)                                  { r.ring.AddJob(job) }
func (r rememberIn) RequestRefused(core.Direction, wire.Code, time.Duration) {}

// runRemembering runs a test with a dispatcher that remembers its decisions.
func runRemembering(t *testing.T, fn func(h *harness, ring *stats.JobRing)) {
	t.Helper()
	ring := stats.NewJobRing()
	runWith(t, func(c *dispatch.Config) { c.Observer = rememberIn{ring} }, func(h *harness) { fn(h, ring) })
}

// fillElsewhere takes a slot of a node as another instance does: this one does not know.
func (h *harness) fillElsewhere(id core.NodeID, job string) {
	h.t.Helper()
	n := h.fleet.Node(id)
	r, err := h.mem.Reserve(h.t.Context(), store.ReserveParams{
		Lease: core.LeaseRef{Node: id, Job: core.JobID(job), Attempt: 1, Token: core.Token(job)}, Handle: n.Handle(), Epoch: n.Epoch(),
		Revision: n.Declared().Revision,
	})
	if err != nil || r.Verdict != store.OK {
		h.t.Fatalf("%v %v", r.Verdict, err)
	}
}

// decision returns the one decision about a job.
func decision(t *testing.T, ring *stats.JobRing, id core.JobID) core.Decision {
	t.Helper()
	all := ring.Decisions(id)
	if len(all) != 1 {
		t.Fatalf("%d decisions, want one: %v", len(all), all)
	}
	return all[0]
}

// TestDecisionOfASample: a node that turns out to be full is remembered as such, before the one that was chosen.
func TestDecisionOfASample(t *testing.T) {
	t.Parallel()
	runRemembering(t, func(h *harness, ring *stats.JobRing) {
		h.stopFollower() // it would see what other instances do
		full := 0
		for i := range 20 { // until the full one is tried first
			free, filled := fmt.Sprint("free-", i), fmt.Sprint("full-", i)
			h.addNode(free, 1)
			h.addNode(filled, 1)
			h.fillElsewhere(core.NodeID(filled), "elsewhere")
			p := h.dispatch(withRequestID(fmt.Sprint("r-", i)), func(s *core.Spec) { s.Tenant = "acme" })
			d := decision(t, ring, p.Job)
			if d.Node != core.NodeID(free) || d.Attempt != 1 || d.Tenant != "acme" || d.AtMS == 0 {
				t.Fatalf("the decision is %+v, and %s was free", d, free)
			}
			for _, c := range d.Candidates {
				if c.Node == core.NodeID(filled) && c.Reason == core.ReasonFull {
					full++
				}
			}
			if _, err := h.registry.Remove(t.Context(), core.NodeID(filled)); err != nil {
				t.Fatal(err)
			}
		}
		if full == 0 {
			t.Error("no decision has a full node with its reason")
		}
	})
}

// TestDecisionOfAnExhaustiveSelection: if no node of the sample has a free slot, the nodes that were asked are remembered, the first of
// them one by one.
func TestDecisionOfAnExhaustiveSelection(t *testing.T) {
	t.Parallel()
	runRemembering(t, func(h *harness, ring *stats.JobRing) {
		h.stopFollower() // it would see what other instances do
		const count, free = 30, core.NodeID("n-17")
		for i := range count {
			id := core.NodeID(fmt.Sprintf("n-%02d", i))
			h.addNode(string(id), 1)
			if id != free {
				h.fillElsewhere(id, "elsewhere")
			}
		}
		rejected := 0
		for round := range 5 {
			for n := range h.fleet.All() {
				h.fleet.Observe(n, 1, 1, h.fleet.Now()) // believed full
			}
			p := h.dispatch(withRequestID(fmt.Sprint("r-", round)))
			d := decision(t, ring, p.Job)
			last, others := len(d.Candidates)-1, d.Others[core.ReasonFull]
			if d.Node != free || d.Candidates[last] != (core.Candidate{Node: free}) || len(d.Candidates) > core.MaxCandidates {
				t.Errorf("the decision is %+v", d)
			}
			for _, c := range d.Candidates[:last] {
				if c.Reason != core.ReasonFull {
					t.Errorf("%s was rejected for %q", c.Node, c.Reason)
				}
			}
			if len(d.Candidates)+others > count || len(d.Candidates) < core.MaxCandidates && others > 0 {
				t.Errorf("%d nodes are listed and %d others counted", len(d.Candidates), others)
			}
			rejected += last + others
			if err := h.done(p); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if rejected == 0 {
			t.Error("no decision has the nodes that were asked in vain")
		}
	})
}

// TestDecisionOfThePreferredNode: the node that the client prefers is the only candidate.
func TestDecisionOfThePreferredNode(t *testing.T) {
	t.Parallel()
	runRemembering(t, func(h *harness, ring *stats.JobRing) {
		h.addNode("n1", 1)
		h.addNode("n2", 1)
		p := h.dispatch(func(s *core.Spec) { s.Options.PreferredNodeID = new("n2") })
		if diff := cmp.Diff([]core.Candidate{{Node: "n2"}}, decision(t, ring, p.Job).Candidates); diff != "" {
			t.Errorf("candidates (-want +got):\n%s", diff)
		}
		if err := h.done(p); err != nil {
			t.Fatal(err)
		}
		if job := ring.Job(p.Job); job == nil || job.State != core.StateDone || job.Result != nil {
			t.Errorf("the remembered job is %+v", job)
		}
	})
}

// TestRefusalsAreNotRemembered: a request without a node leaves no decision.
func TestRefusalsAreNotRemembered(t *testing.T) {
	t.Parallel()
	runRemembering(t, func(h *harness, ring *stats.JobRing) {
		h.addNode("n1", 1)
		h.fillElsewhere("n1", "elsewhere")
		h.dispatchRefused()
		r := spec()
		if got := ring.Decisions(r.Job()); got != nil {
			t.Errorf("decisions %v", got)
		}
	})
}
