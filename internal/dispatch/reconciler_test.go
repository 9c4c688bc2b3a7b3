package dispatch_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestLostNodeThatReturnsWithItsJobKeepsTheSlot(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		time.Sleep(5 * time.Second)
		p := h.dispatch()
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11500 * time.Millisecond) // silent; its jobs are to be moved, and there is no other node
		synctest.Wait()
		h.wantState(p.Job, core.StateRetrying, core.ReasonNodeLost)
		h.heartbeat("node-a", h.transport.heldBy("node-a")) // back, and still running it
		h.addNode("node-b", 1)
		time.Sleep(time.Second)
		synctest.Wait()
		if now := h.placementOf(p.Job); now.Node != "node-b" {
			t.Fatalf("the job is at %+v", now)
		}
		if n := h.inFlight("node-a"); n != 1 {
			t.Errorf("%d slots taken on a node that lists a job, want 1", n)
		}
		wantCode(t, h.dispatchRefused(withRequestID("req-2")), wire.AllCandidatesFullOrFailed)
	})
}

func TestRegistrationDuringDeliveryReleasesNothing(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{"before the record", "after the record", "during the delivery"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				h.addNode("node-a", 1)
				m := &hookStore{Store: h.mem}
				again := func() {
					if err := h.register("node-a", 1, store.Activity{Lists: true}); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
					synctest.Wait()
				}
				switch moment {
				case "before the record":
					m.beforeCreate = again
				case "after the record":
					m.afterCreate = again
				default:
					h.transport.onDelivery = func(*wire.Assignment) { again() }
				}
				h.store.Store = m
				p := h.dispatch()
				h.transport.onDelivery = nil
				h.wantState(p.Job, core.StateDispatched, "")
				if n := h.inFlight("node-a"); n != 1 {
					t.Errorf("%d slots taken, want 1", n)
				}
				wantCode(t, h.dispatchRefused(withRequestID("req-2")), wire.AllCandidatesFullOrFailed)
				if err := h.ack(p); err != nil {
					t.Errorf("the holder's ACK: %v", err)
				}
				if err := h.done(p); err != nil {
					t.Error(err)
				}
				h.wantFree("node-a")
			})
		})
	}
}

func TestRegistrationDuringRetryDoesNotStopIt(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		h.advance(3*time.Second, "node-a")
		h.wantState(p.Job, core.StateRetrying, core.ReasonACKTimeout)
		if err := h.register("node-a", 1, store.Activity{Lists: true, Active: h.transport.heldBy("node-a")}); err != nil {
			t.Fatal(err)
		}
		h.addNode("node-b", 1)
		h.advance(2*time.Second, "node-a", "node-b")
		if now := h.placementOf(p.Job); now.Node != "node-b" || now.Attempt != 2 {
			t.Errorf("with a free node the job is at %+v", now)
		}
	})
}

func TestHeartbeatNumbersThatStartAgain(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		beat := func(seq uint64) {
			if _, err := h.registry.Heartbeat(h.t.Context(), nodes.Heartbeat{Node: "node-a", Seq: seq}); err != nil {
				t.Fatal(err)
			}
		}
		beat(500)
		for seq := uint64(1); seq < 25; seq++ { // another process with the same node id
			time.Sleep(time.Second)
			beat(seq)
		}
		status, err := store.ReadNode(h.t.Context(), h.mem, "node-a")
		if err != nil || status.Age > time.Second {
			t.Errorf("age %v, %v after 24 heartbeats in time", status.Age, err)
		}
	})
}

func TestHeartbeatWithoutHealthKeepsHealth(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		h.stopFollower()
		h.changeInStore("node-a", func(n *core.Node) { n.Health = core.HealthDraining })
		h.heartbeat("node-a", nil)
		status, err := store.ReadNode(h.t.Context(), h.mem, "node-a")
		if err != nil || status.Node.Health != core.HealthDraining {
			t.Errorf("health %v, %v, want draining", status.Node.Health, err)
		}
	})
}

func TestJobsOfSilentNodeAreMoved(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 2)
		p, q := h.dispatch(), h.dispatch(withRequestID("req-2"))
		for _, one := range []struct{ err error }{{h.ack(p)}, {h.ack(q)}} {
			if one.err != nil {
				t.Fatal(one.err)
			}
		}
		h.advance(10*time.Second, "node-a")
		h.addNode("node-b", 2)
		// From here on only node-b sends heartbeats. The deadline of the attempts is later.
		h.heartbeat("node-a", h.transport.heldBy("node-a"))
		h.advance(4*time.Second, "node-b")
		if now := h.placementOf(p.Job); now.Node != "node-a" {
			t.Fatalf("moved too early: %+v", now)
		}
		h.advance(12*time.Second, "node-b")
		for _, id := range []core.JobID{p.Job, q.Job} {
			if now := h.placementOf(id); now.Node != "node-b" || now.Attempt != 2 {
				t.Errorf("a silent node's job is at %+v", now)
			}
		}
		// It comes back and still runs them: they are cancelled, and take their slots until the node stops listing them.
		if diff := cmp.Diff(2, len(h.heartbeat("node-a", h.transport.heldBy("node-a")))); diff != "" {
			t.Errorf("cancels (-want +got):\n%s", diff)
		}
		if n := h.inFlight("node-a"); n != 2 {
			t.Errorf("%d slots of the returned node are taken, want 2", n)
		}
		h.heartbeat("node-a", []store.ActiveJob{})
		h.wantFree("node-a")
	})
}

func TestJobsOfOfflineNodeAreMoved(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		if err := h.ack(p); err != nil {
			t.Fatal(err)
		}
		h.addNode("node-b", 1)
		_, err := h.registry.Heartbeat(h.t.Context(), nodes.Heartbeat{Node: "node-a", Change: core.Change{Declaration: core.Declaration{Health: core.HealthOffline}}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now := h.placementOf(p.Job); now.Node != "node-b" || now.Attempt != 2 {
			t.Errorf("after going offline: %+v", now)
		}
	})
}

func TestUnlistedJobsOfRegisteredNodeAreMoved(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 3)
		kept, lost := h.dispatch(), h.dispatch(withRequestID("req-2"))
		if err := h.ack(lost); err != nil {
			t.Fatal(err)
		}
		h.addNode("node-b", 3)
		h.transport.drop(lost)
		a := store.Activity{Lists: true, Active: h.transport.heldBy("node-a")}
		before := h.job(kept.Job).Epoch
		if err := h.register("node-a", 3, a); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now := h.placementOf(kept.Job); now != kept {
			t.Errorf("a job the node still has moved to %+v", now)
		}
		after := h.job(kept.Job).Epoch
		if after <= before {
			t.Errorf("the job is in epoch %d, was %d", after, before)
		}
		if now := h.placementOf(lost.Job); now.Node != "node-b" || now.Attempt != 2 {
			t.Errorf("a job the node lost is at %+v", now)
		}
		r := reportOf(kept)
		r.Epoch = before
		wantCode(t, h.dispatcher.Reports.Ack(h.t.Context(), r), wire.StaleEpoch)
		r.Epoch = after
		if err := h.dispatcher.Reports.Ack(h.t.Context(), r); err != nil {
			t.Errorf("ACK in the new epoch: %v", err)
		}
		if err := h.done(kept); err != nil {
			t.Errorf("done in the new epoch: %v", err)
		}
		h.wantFree("node-a")
	})
}

func TestRegistrationDuringRetryKeepsTheLease(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		h.advance(4*time.Second, "node-a")
		h.wantState(p.Job, core.StateRetrying, core.ReasonACKTimeout)
		if err := h.register("node-a", 1, store.Activity{Lists: true, Active: h.transport.heldBy("node-a")}); err != nil {
			t.Fatal(err)
		}
		leases, err := h.mem.Orphans(h.t.Context(), "node-a")
		if err != nil || len(leases) != 1 || leases[0].State == core.LeaseRevoked {
			t.Errorf("leases %v, %v: the unfinished job could not be found", leases, err)
		}
		if err := h.done(p); err != nil {
			t.Errorf("its late result: %v", err)
		}
		h.wantState(p.Job, core.StateDone, "")
	})
}

func TestJobsOfEarlierStoreIncarnation(t *testing.T) {
	t.Parallel()
	runWith(t, func(c *dispatch.Config) { c.Shared = true }, func(h *harness) {
		// The store has just started; the node runs a job that it received before.
		stray := []store.ActiveJob{{Job: "job-of-old", Attempt: 2}}
		if err := h.register("node-a", 2, store.Activity{Lists: true, Active: stray}); err != nil {
			t.Fatal(err)
		}
		if n := h.inFlight("node-a"); n != 1 {
			t.Errorf("%d slots taken, want 1: the node runs the job", n)
		}
		if cancel := h.heartbeat("node-a", stray); len(cancel) != 0 {
			t.Errorf("a young store cancelled %v", cancel)
		}
		// The instance that dispatched the job may write its record again: the node sends the result again later.
		late := reportOf(h.newPlacement("job-of-old", "node-a", 2))
		wantCode(t, h.dispatcher.Reports.Done(h.t.Context(), late, nil), wire.SchedulerDependencyDown)

		time.Sleep(10 * time.Second)
		h.heartbeat("node-a", stray)
		time.Sleep(10 * time.Second)
		h.heartbeat("node-a", stray)
		time.Sleep(11 * time.Second) // older than any job
		if cancel := h.heartbeat("node-a", stray); len(cancel) != 1 {
			t.Errorf("cancels %v, want the stray", cancel)
		}
	})
}

func TestHeartbeatOfUnknownNode(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		_, err := h.registry.Heartbeat(h.t.Context(), nodes.Heartbeat{Node: "node-a", Change: core.Change{Declaration: core.Declaration{Health: core.HealthReady}}})
		wantCode(t, err, wire.NotFound)
		slots, url := 1, "http://127.0.0.1:9/a"
		full := core.Change{Declaration: core.Declaration{Capability: core.Capability{Semantic: core.LangSet{"en", "zh"}}, MaxJobs: slots, Callback: url}}
		if _, err = h.registry.Heartbeat(h.t.Context(), nodes.Heartbeat{Node: "node-a", Change: full}); err != nil {
			t.Fatalf("a full heartbeat: %v", err)
		}
		// It was registered before and does not list its jobs: it may have any number of them.
		wantCode(t, h.dispatchRefused(), wire.AllCandidatesFullOrFailed)
		h.advance(16*time.Second, "node-a")
		h.dispatch()
	})
}

// TestListSentBeforeResultTakesNoSlot: the heartbeat was written before the node knew that its result had
// arrived, and comes after it.
func TestListSentBeforeResultTakesNoSlot(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		if err := h.done(p); err != nil {
			t.Fatal(err)
		}
		if stop := h.heartbeat("node-a", []store.ActiveJob{{Job: p.Job, Attempt: 1}}); len(stop) != 0 {
			t.Errorf("the node should stop a job that it has finished: %v", stop)
		}
		h.wantFree("node-a")
		h.dispatch(withRequestID("req-2"))
	})
}

// TestOnlyMovedJobsAreLogged: marking a node as lost does not count as a heartbeat of it; and an instance that finds nothing to
// move does not log that it moved jobs, whether
// another instance has moved them or the node had gone offline before.
func TestOnlyMovedJobsAreLogged(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.stopFollower() // the test calls MoveJobsOfSilent itself
		var log bytes.Buffer
		instance := func(id core.InstanceID) *nodes.Registry {
			return nodes.New(nodes.Config{Instance: id, Presence: timing.Presence}, h.store, h.fleet, nodes.JobsOf(h.dispatcher), h.metrics,
				slog.New(slog.NewTextHandler(&log, nil)))
		}
		first, second := instance("i-1"), instance("i-2")
		h.addNode("node-a", 1)
		time.Sleep(timing.Presence / 2) // so that it is silent long before its job's deadline
		if err := h.ack(h.dispatch()); err != nil {
			t.Fatal(err)
		}
		h.addNode("left", 1)
		time.Sleep(time.Second)
		if err := first.MarkLost(t.Context(), "left", h.fleet.Node("left").Declared().Epoch); err != nil {
			t.Fatal(err)
		}
		if left, err := store.ReadNode(t.Context(), h.mem, "left"); err != nil || left.Age != time.Second || left.Node.Health != core.HealthOffline {
			t.Errorf("marking a node as lost changed its last heartbeat: %+v, %v", left, err)
		}
		h.addNode("node-b", 1)
		time.Sleep(timing.Presence/2 + time.Second)
		h.addNode("node-b", 1)
		log.Reset()
		wantLogged := func(r *nodes.Registry, id core.NodeID, want int) {
			t.Helper()
			if unhandled := r.MoveJobsOfSilent(t.Context(), []core.NodeID{id}); len(unhandled) > 0 {
				t.Fatal(unhandled)
			}
			synctest.Wait()
			if n := strings.Count(log.String(), "node is silent; its jobs are moved"); n != want {
				t.Errorf("logged %d times, want %d:\n%s", n, want, log.String())
			}
		}
		wantLogged(first, "node-a", 1)
		if !strings.Contains(log.String(), "jobs=1") {
			t.Errorf("the number of jobs is not logged:\n%s", log.String())
		}
		wantLogged(second, "node-a", 1)
		time.Sleep(timing.Presence)
		wantLogged(first, "left", 1)
		wantLogged(second, "left", 1)
	})
}
