package dispatch_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestRetryOnOnlyUsableNode: a node that gave a job up is tried again at once when no other can take it, although
// others are registered. While another merely has no room, the job waits for that one.
func TestRetryOnOnlyUsableNode(t *testing.T) {
	t.Parallel()
	offline, none, busy, tenant := core.HealthOffline, 0, core.Load{CPU: 1, GPU: -1, Memory: -1}, core.TenantID("somebody")
	beat := func(p nodes.Patch) func(*testing.T, *world) {
		return func(t *testing.T, w *world) {
			if _, err := w.life.Heartbeat(t.Context(), nodes.Heartbeat{Node: "a", Patch: p}); err != nil {
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
			if err := w.life.MarkLost(t.Context(), "a", 0); err != nil {
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

// TestRetryOnNodeRegisteredAgain: a node that registers again does not have what it does not list. So the only node
// there is gets a job again that was lost on its way, or when the node restarted; while another could take it, that one does.
func TestRetryOnNodeRegisteredAgain(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world, p dispatch.Placement){
		"lost on its way": func(w *world, _ dispatch.Placement) { w.pass(2500*time.Millisecond, "a") },
		"lost by the node": func(w *world, p dispatch.Placement) {
			if err := w.ack(p); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		for _, other := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, with another %t", name, other), func(t *testing.T) {
				t.Parallel()
				play(t, func(w *world) {
					w.node("a", 1)
					p := w.dispatch()
					w.sent.drop(p)
					lose(w, p)
					if other {
						w.node("b", 1)
						w.dispatch(request("req-2"), prefers("b")) // it is full
					}
					if err := w.register("a", 1, store.Activity{Lists: true}); err != nil {
						t.Fatal(err)
					}
					w.pass(8*time.Second, "a")
					again := slices.ContainsFunc(w.sent.deliveries(), func(a wire.Assignment) bool {
						return a.JobID == string(p.Job) && a.NodeID == "a" && a.AttemptID == 2
					})
					if again == other {
						t.Errorf("a got the job again: %v, with another node there: %v", again, other)
					}
				})
			})
		}
	}
}
