package dispatch_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// declareServices changes the services of a node by a heartbeat.
func (h *harness) declareServices(id core.NodeID, services ...string) {
	h.t.Helper()
	var p core.Change
	withServices(services...)(&p)
	if _, err := h.registry.Heartbeat(h.t.Context(), nodes.Heartbeat{Node: id, Change: p}); err != nil {
		h.t.Error(err)
	}
}

// setAside sets a node aside, so that it is chosen only when all nodes are surveyed.
func (h *harness) setAside(id core.NodeID) {
	h.fleet.Node(id).SetAside(h.fleet.Now() + 1e12)
}

// TestNodeMovesAfterTheReservation: if a node leaves its pool between the reservation and the record of a job that is bound to the pool,
// the record names the pool of the tenant, and retries keep to it.
func TestNodeMovesAfterTheReservation(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*harness, *core.Spec){
		"sampled":   func(*harness, *core.Spec) {},
		"preferred": func(_ *harness, s *core.Spec) { s.Options.PreferredNodeID = new("g") },
		"surveyed":  func(h *harness, _ *core.Spec) { h.setAside("g") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				h.addNode("g", 9, withServices("x"))
				h.addNode("s", 9, withServices("y"))
				h.fleet.SetPools(goldAndSilver())
				moved := false
				h.store.onReserve = func(_ store.ReserveParams, v store.Verdict) {
					if !moved && v == store.OK {
						moved = true
						h.declareServices("g", "y")
					}
				}
				first := h.dispatch(ofTenant(boundTenant), func(s *core.Spec) { prepare(h, s) })
				want := core.JobPool{ID: "gold", Bound: true}
				if got := h.job(first.Job).Pool; !moved || got != want {
					t.Errorf("the record has the pool %+v, want %+v", got, want)
				}
				h.addNode("g2", 9, withServices("x"))
				h.acknowledge(first)
				if err := h.fail(first, core.ReasonNodeFailed); err != nil {
					t.Fatal(err)
				}
				h.advance(2*time.Second, "g", "s", "g2")
				if j := h.job(first.Job); j.Node != "g2" || j.Attempt != 2 || j.Pool != want {
					t.Errorf("attempt %d is on %s in %+v, want the second on g2, the only node of the pool", j.Attempt, j.Node, j.Pool)
				}
			})
		})
	}
}

// TestNewNodeInAnEmptyPool: a job is not refused for lack of capable nodes when one has just registered in a pool that had none, or has
// just moved to one.
func TestNewNodeInAnEmptyPool(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*core.Spec){"bound": ofTenant(boundTenant), "not bound": func(*core.Spec) {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				h.addNode("n", 9, withServices("y"), func(p *core.Change) { p.Semantic = core.LangSet{"en"} })
				h.fleet.SetPools(goldAndSilver())
				if e := h.dispatchRefused(withRequestID("none"), change); e.Code != wire.NoCapableNode {
					t.Errorf("%s without a node", e.Code)
				}
				h.addNode("g", 9, withServices("x"))
				if p := h.dispatch(withRequestID("registered"), change); p.Node != "g" {
					t.Errorf("the job is on %s", p.Node)
				}
			})
		})
	}
	t.Run("moved", func(t *testing.T) {
		t.Parallel()
		runTest(t, func(h *harness) {
			h.addNode("g", 9, withServices("x"))
			h.fleet.SetPools(goldAndSilver())
			h.dispatch(withRequestID("before"))
			h.declareServices("g", "y")
			if p := h.dispatch(withRequestID("after")); p.Node != "g" || h.job(p.Job).Pool.ID != "silver" {
				t.Errorf("the job is on %s in the pool %q", p.Node, h.job(p.Job).Pool.ID)
			}
			h.declareServices("g", "x")
			if p := h.dispatch(withRequestID("bound"), ofTenant(boundTenant)); p.Node != "g" {
				t.Errorf("the job of the bound tenant is on %s", p.Node)
			}
		})
	})
}

// TestBoundPoolLacksService: a job that requires a service which no node of its pool has counts as tried there.
func TestBoundPoolLacksService(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("g", 9, withServices("x"))
		h.addNode("s", 9, withServices("y", "z"))
		h.fleet.SetPools(goldAndSilver())
		if e := h.dispatchRefused(ofTenant(boundTenant), requiring("z")); e.Code != wire.NoCapableNode {
			t.Errorf("%s", e.Code)
		}
		want := map[string]float64{
			"selected_total fallback=none outcome=refused pool=gold": 1, "attempt_total pool=gold reason=service_missing result=failed": 1,
		}
		if diff := cmp.Diff(want, h.poolCounts()); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
}
