package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

// Outcomes of a job on a node that are not the code of an error.
const (
	accepted  = wire.Code("accepted")  // its result was accepted
	cancelled = wire.Code("cancelled") // the response to a heartbeat cancelled it
)

// nodeFleet is all nodes of a test. They are patient, so the outcome of each of their jobs is known.
type nodeFleet []*fleet.CallbackNode

// startNodes starts nodes and registers them.
func startNodes(t *testing.T, instances cluster, count, slots int, work func() time.Duration) nodeFleet {
	t.Helper()
	f := make(nodeFleet, count)
	for i := range f {
		f[i] = startCallbackNode(t, fleet.CallbackOptions{
			ID: fmt.Sprintf("node-%02d", i), API: func() *lab.API { return instances.anyInstance().peer }, Minimal: true, Patient: true,
			Declaration: wire.Declaration{SemanticLangs: []string{"en", "zh"}, MaxConcurrentJobs: &slots},
			Work: func(ctx context.Context, _ *wire.Assignment) (string, error) {
				run.Sleep(ctx, work())
				return "…", ctx.Err()
			},
		})
	}
	waitUntil(t, "every instance to see every node", waitLimit, func() bool { return instances.allSee(f.ids()...) })
	return f
}

// startCallbackNode runs a node until the test ends.
func startCallbackNode(t *testing.T, o fleet.CallbackOptions) *fleet.CallbackNode {
	t.Helper()
	n, err := fleet.StartCallbackNode(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Kill)
	return n
}

func (f nodeFleet) ids() []core.NodeID {
	ids := make([]core.NodeID, len(f))
	for i, n := range f {
		ids[i] = core.NodeID(n.ID)
	}
	return ids
}

// allRegistered reports whether each node has registered so many times.
func (f nodeFleet) allRegistered(times int) bool {
	return !slices.ContainsFunc(f, func(n *fleet.CallbackNode) bool { return n.Stats().Registrations < times })
}

// heldJob is a job that a node had.
type heldJob struct {
	node *fleet.CallbackNode
	fleet.HeldJob
}

// heldJobs returns every job that the nodes list now.
func (f nodeFleet) heldJobs() []heldJob {
	var all []heldJob
	for _, n := range f {
		for _, job := range n.Held() {
			all = append(all, heldJob{n, job})
		}
	}
	return all
}

// outcome returns the outcome of a job on its node; empty while the node has it.
func (h heldJob) outcome() wire.Code {
	err, ended := h.node.Outcomes()[h.ActiveJob]
	if !ended {
		return ""
	}
	return outcomeOf(err)
}

// outcomeOf returns the outcome of a job whose result was not accepted because of an error.
func outcomeOf(err error) wire.Code {
	var refusal *wire.Error
	switch {
	case err == nil:
		return accepted
	case errors.As(err, &refusal):
		return refusal.Code
	}
	return cancelled
}

// working reports whether the node works on a job.
func (h heldJob) working() bool {
	return slices.ContainsFunc(h.node.Held(), func(now fleet.HeldJob) bool { return now.ActiveJob == h.ActiveJob && now.Working })
}

func (h heldJob) String() string {
	return fmt.Sprintf("attempt %d of %s: %s; it was on %s, acknowledged: %v", h.AttemptID, h.JobID, h.outcome(), h.node.ID, h.Acked)
}

// formatAttempts formats the attempts of a job.
func formatAttempts(job *wire.Job) string {
	history := ""
	for _, a := range job.Attempts {
		history += fmt.Sprintf("[%d at %s %s]", a.AttemptID, a.NodeID, a.Reason)
	}
	return history
}

// countOutcomes counts the outcomes of jobs.
func countOutcomes(held []heldJob) map[wire.Code]int {
	counts := make(map[wire.Code]int)
	for _, h := range held {
		counts[h.outcome()]++
	}
	return counts
}

// refusedDeliveries returns how many deliveries came to nodes without a free slot. It also checks that no node ran more jobs
// than it has slots, which the node itself prevents.
func (f nodeFleet) refusedDeliveries(t *testing.T) int {
	t.Helper()
	refused := 0
	for _, n := range f {
		stats := n.Stats()
		refused += stats.Rejected
		if slots := *n.Declaration.MaxConcurrentJobs; stats.MaxWorking > slots {
			t.Errorf("%s ran %d jobs on %d slots", n.ID, stats.MaxWorking, slots)
		}
	}
	return refused
}

// historyOf returns what the nodes know of a job.
func (f nodeFleet) historyOf(id string) string {
	history := ""
	for _, n := range f {
		for job, err := range n.Outcomes() {
			if job.JobID == id {
				history += fmt.Sprintf(" attempt %d at %s: %s;", job.AttemptID, n.ID, outcomeOf(err))
			}
		}
	}
	return history
}
