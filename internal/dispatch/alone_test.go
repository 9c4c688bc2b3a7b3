package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
)

// TestRetryOnOnlyUsableNode: a node that gave a job up is tried again at once when no other can take it, although
// others are registered. While another merely has no room, the job waits for that one.
func TestRetryOnOnlyUsableNode(t *testing.T) {
	t.Parallel()
	offline, none, busy, tenant := core.HealthOffline, 0, core.Load{CPU: 1, GPU: -1, Memory: -1}, core.TenantID("somebody")
	beat := func(p nodes.Patch) func(*testing.T, *world) {
		return func(t *testing.T, w *world) {
			if _, err := w.life.Heartbeat(t.Context(), nodes.Beat{Node: "a", Patch: p}); err != nil {
				t.Error(err)
			}
		}
	}
	for name, c := range map[string]struct {
		other func(t *testing.T, w *world)
		waits bool
	}{
		"the other left":           {other: beat(nodes.Patch{Health: offline})},
		"the other has no slots":   {other: beat(nodes.Patch{MaxJobs: &none})},
		"the other is a tenant's":  {other: beat(nodes.Patch{Tenant: &tenant})},
		"the other is unreachable": {other: beat(nodes.Patch{Callback: new(string)})},
		"the other is overloaded":  {other: beat(nodes.Patch{Load: &busy}), waits: true},
		"the other is full": {
			other: func(_ *testing.T, w *world) { w.dispatch(request("req-2"), prefers("a")) },
			waits: true,
		},
		"the other is drained": {other: func(t *testing.T, w *world) {
			if _, err := w.life.Drain(t.Context(), "a", true); err != nil {
				t.Error(err)
			}
		}},
		"the other was lost": {other: func(t *testing.T, w *world) {
			if err := w.life.Gone(t.Context(), "a", 0); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) {
				w.node("a", 1)
				w.node("b", 1)
				p := w.dispatch(prefers("b"))
				c.other(t, w)
				synctest.Wait()
				if err := w.fail(p, core.ReasonNodeFailed); err != nil {
					t.Fatal(err)
				}
				time.Sleep(200 * time.Millisecond)
				synctest.Wait()
				job := w.job(p.Job)
				if again := job.State == core.StateDispatched && job.Node == "b" && job.Attempt == 2; again == c.waits {
					t.Errorf("%s on %s in attempt %d, 200 ms after b gave it up; waits for a: want %v", job.State, job.Node, job.Attempt, c.waits)
				}
			})
		})
	}
}

// prefers asks for a node.
func prefers(id string) func(*core.Spec) {
	return func(s *core.Spec) { s.Options.PreferredNode = core.NodeID(id) }
}
