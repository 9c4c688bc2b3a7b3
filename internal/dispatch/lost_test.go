package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/waiting"

	dto "github.com/prometheus/client_model/go"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// loseConnection records that a node has lost its connection, of a number.
func (h *harness) loseConnection(id core.NodeID, connection uint64) {
	h.t.Helper()
	if err := h.registry.Disconnected(h.t.Context(), id, h.fleet.Node(id).Epoch(), connection); err != nil {
		h.t.Fatal(err)
	}
}

// reconnect records that a node has another connection, of a number.
func (h *harness) reconnect(id core.NodeID, connection uint64) {
	h.t.Helper()
	if err := h.registry.Reconnected(h.t.Context(), id, h.fleet.Node(id).Epoch(), connection); err != nil {
		h.t.Fatal(err)
	}
}

// sleep lets time pass, and waits for what happens then.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wantOn checks which node has a job, in which attempt.
func (h *harness) wantOn(job core.JobID, node core.NodeID, attempt int) {
	h.t.Helper()
	if j := h.job(job); !isHeld(j) || j.Node != node || j.Attempt != attempt {
		h.t.Fatalf("%s on %s, attempt %d; want it on %s, attempt %d: %+v", j.State, j.Node, j.Attempt, node, attempt, j.History)
	}
}

// isHeld reports whether a node has a job.
func isHeld(j *core.Job) bool { return j.State == core.StateDispatched || j.State == core.StateAcked }

// TestJobMovesFromLostNode: 50 ms after a node has lost its connection its job is on another one. The slot that it had stays taken until
// the node's list shows that it does not have the job, and a late result of the node is refused.
func TestJobMovesFromLostNode(t *testing.T) {
	t.Parallel()
	for _, acknowledged := range []bool{true, false} {
		t.Run(fmt.Sprint("acknowledged ", acknowledged), func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				h.addNode("node-a", 1)
				p := h.dispatch()
				if acknowledged {
					h.acknowledge(p)
				}
				h.addNode("node-b", 1)
				h.loseConnection("node-a", 1)
				sleep(49 * time.Millisecond)
				h.wantOn(p.Job, "node-a", 1)
				sleep(time.Millisecond)
				h.wantOn(p.Job, "node-b", 2)
				if past := h.job(p.Job).History[0]; past.Reason != core.ReasonDisconnected {
					t.Errorf("the first attempt ended with %s", past.Reason)
				}
				if n := len(h.transport.deliveries()); n != 2 {
					t.Errorf("%d deliveries, want 2", n)
				}
				var delay dto.Metric
				if err := h.metrics.MoveDelay.Write(&delay); err != nil || delay.Histogram.GetSampleCount() != 1 ||
					delay.Histogram.GetSampleSum() != 0.05 {
					t.Errorf("%v: the delay of the move: %v, want 50 ms", err, delay.Histogram)
				}
				if n := h.inFlight("node-a"); n != 1 {
					t.Errorf("%d slots of the lost node are taken, want 1", n)
				}
				h.reconnect("node-a", 2)
				wantCode(t, h.dispatcher.Reports.Done(h.t.Context(), reportOf(p), []byte(`{}`)), "STALE_ATTEMPT")
				stop := h.heartbeat("node-a", []store.ActiveJob{{Job: p.Job, Attempt: 1}})
				if len(stop) != 1 {
					t.Errorf("the node is told to stop %v, want the job", stop)
				}
				h.heartbeat("node-a", []store.ActiveJob{})
				h.wantFree("node-a")
				if err := h.done(h.acknowledge(h.placementOf(p.Job))); err != nil {
					t.Fatal(err)
				}
				h.wantState(p.Job, core.StateDone, "")
				h.wantFree("node-b")
			})
		})
	}
}

// TestQuickReconnectMovesNothing: a node that has a connection again within 50 ms keeps its job.
func TestQuickReconnectMovesNothing(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.acknowledge(h.dispatch())
		h.addNode("node-b", 1)
		for i := range uint64(20) { // each loss begins the time anew
			h.loseConnection("node-a", 2*i+1)
			sleep(49 * time.Millisecond)
			h.reconnect("node-a", 2*i+2)
		}
		sleep(time.Second)
		h.wantOn(p.Job, "node-a", 1)
		h.wantFree("node-b")
	})
}

// TestNothingChangesWithoutASlot: a job that finds no slot stays with its node, and moves as soon as there is one.
func TestNothingChangesWithoutASlot(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-b", 1)
		other := h.acknowledge(h.dispatch(withRequestID("other")))
		h.addNode("node-a", 2)
		first, second := h.acknowledge(h.dispatch()), h.acknowledge(h.dispatch(withRequestID("second")))
		h.loseConnection("node-a", 1)
		sleep(time.Second)
		for _, p := range []dispatch.Placement{first, second} {
			h.wantOn(p.Job, "node-a", 1)
			if j := h.job(p.Job); len(j.History) != 1 || j.Version != 1 {
				t.Errorf("the record has changed: %+v", j)
			}
		}
		if err := h.done(first); err != nil { // its result stands, over whichever connection it comes
			t.Fatal(err)
		}
		if err := h.done(other); err != nil {
			t.Fatal(err)
		}
		sleep(250 * time.Millisecond)
		h.wantOn(second.Job, "node-b", 2)
	})
}

// TestSlotsOfWaitingRequestsAreLeft: a job of a lost node does not take a slot for which a request waits.
func TestSlotsOfWaitingRequestsAreLeft(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-b", 1)
		other := h.acknowledge(h.dispatch(withRequestID("other")))
		h.addNode("node-a", 1)
		p := h.acknowledge(h.dispatch())
		h.loseConnection("node-a", 1)
		waiting := h.startWaiting(h.t.Context(), "waiting", 10*time.Second)
		sleep(100 * time.Millisecond)
		if err := h.done(other); err != nil {
			t.Fatal(err)
		}
		<-waiting.done
		sleep(time.Second)
		h.wantOn(waiting.placement.Job, "node-b", 1)
		h.wantOn(p.Job, "node-a", 1)
	})
}

// TestJobsThatStay: jobs that only their node may finish, or that have no attempt left, wait for it to come back.
func TestJobsThatStay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config func(*dispatch.Config)
		spec   func(*core.Spec)
	}{
		"strict":       {spec: func(s *core.Spec) { s.Options.PreferredNodeID, s.Options.Strict = new("node-a"), true }},
		"last attempt": {config: func(c *dispatch.Config) { c.MaxRetry = 0 }},
		"audio":        {config: func(c *dispatch.Config) { c.HasAudio = func(*core.Job) bool { return false } }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runWith(t, c.config, func(h *harness) {
				h.addNode("node-a", 1)
				var change []func(*core.Spec)
				if c.spec != nil {
					change = append(change, c.spec)
				}
				p := h.acknowledge(h.dispatch(change...))
				h.addNode("node-b", 1)
				h.loseConnection("node-a", 1)
				sleep(time.Second)
				h.wantOn(p.Job, "node-a", 1)
				if n := len(h.job(p.Job).History); n != 1 {
					t.Errorf("%d attempts", n)
				}
			})
		})
	}
}

// TestLostNodeMayGetTheJobAgain: a node that lost a job with its connection gets it again if no other node can take it.
func TestLostNodeMayGetTheJobAgain(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.acknowledge(h.dispatch())
		h.addNode("node-b", 1)
		h.loseConnection("node-a", 1)
		sleep(50 * time.Millisecond)
		h.wantOn(p.Job, "node-b", 2)
		h.acknowledge(h.placementOf(p.Job))
		h.reconnect("node-a", 2)
		h.heartbeat("node-a", h.transport.heldBy("node-a"))
		h.transport.drop(p)
		h.heartbeat("node-a", []store.ActiveJob{})
		h.wantFree("node-a")
		h.loseConnection("node-b", 1)
		sleep(50 * time.Millisecond)
		h.wantOn(p.Job, "node-a", 3)
	})
}

// TestMoveIsDecidedByTheRecord: whatever happens to the job between the reservation and the write, one of both stands, and the slot of the
// other is free.
func TestMoveIsDecidedByTheRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(h *harness, p dispatch.Placement)
		node      core.NodeID
		state     core.State
	}{
		"the result comes": {func(h *harness, p dispatch.Placement) {
			if err := h.done(p); err != nil {
				h.t.Error(err)
			}
		}, "node-a", core.StateDone},
		"the node registers again, with the job": {func(h *harness, p dispatch.Placement) {
			if err := h.register("node-a", 1,
				store.Activity{Lists: true, Active: []store.ActiveJob{{Job: p.Job, Attempt: 1}}}); err != nil {
				h.t.Error(err)
			}
		}, "node-a", core.StateDispatched},
		"the node resumes its epoch": {func(h *harness, _ dispatch.Placement) { h.reconnect("node-a", 2) }, "node-b", core.StateDispatched},
		"the job is cancelled": {func(h *harness, p dispatch.Placement) {
			if _, _, err := h.dispatcher.Cancel(h.t.Context(), p.Job); err != nil {
				h.t.Error(err)
			}
		}, "node-a", core.StateCancelled},
		"the process stands still until the job has moved": {func(h *harness, _ dispatch.Placement) {
			if _, err := h.dispatcher.Reconciler.MoveJobsOfNode(h.t.Context(), "node-a"); err != nil {
				h.t.Error(err)
			}
			synctest.Wait()
		}, "node-c", core.StateDispatched},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) {
				h.addNode("node-a", 1)
				p := h.acknowledge(h.dispatch())
				h.addNode("node-b", 1)
				once := c.meanwhile
				h.store.onReserve = func(r store.ReserveParams, v store.Verdict) {
					if do := once; do != nil && r.Lease.Attempt == 2 && v == store.OK {
						once = nil
						if c.node == "node-c" {
							h.addNode("node-c", 1)
						}
						do(h, p)
					}
				}
				h.loseConnection("node-a", 1)
				sleep(60 * time.Millisecond)
				if once != nil {
					t.Fatal("no slot was reserved")
				}
				j := h.job(p.Job)
				if j.State != c.state && (c.state != core.StateDispatched || !isHeld(j)) || j.Node != c.node {
					t.Fatalf("%s on %s, want %s on %s: %+v", j.State, j.Node, c.state, c.node, j.History)
				}
				for _, id := range []core.NodeID{"node-b", "node-c"} {
					want := 0
					if j.Node == id {
						want = 1
					}
					if h.fleet.Node(id) == nil {
						continue
					}
					if n := h.inFlight(string(id)); n != want {
						t.Errorf("%d slots of %s are taken, want %d", n, id, want)
					}
				}
			})
		})
	}
}

// TestLostRepliesOfAMove: a lost reply of the reservation or of the write does neither lose nor double the job, nor a slot.
func TestLostRepliesOfAMove(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"reserve", "apply"} {
		for _, down := range []bool{true, false} {
			t.Run(fmt.Sprint(operation, " fails ", down), func(t *testing.T) {
				t.Parallel()
				runTest(t, func(h *harness) {
					h.addNode("node-a", 1)
					p := h.acknowledge(h.dispatch())
					h.addNode("node-b", 1)
					h.store.failNext(down, operation, 1)
					h.loseConnection("node-a", 1)
					sleep(2 * time.Second)
					h.wantOn(p.Job, "node-b", 2)
					if n := h.inFlight("node-b"); n != 1 {
						t.Errorf("%d slots are taken, want 1", n)
					}
					if err := h.done(h.acknowledge(h.placementOf(p.Job))); err != nil {
						t.Fatal(err)
					}
					h.wantFree("node-b")
				})
			})
		}
	}
}

// TestJobIsCheckedWhileItMoves: the check of a running job that finds it moved by this instance, which does not know yet that it has,
// leaves it.
func TestJobIsCheckedWhileItMoves(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.acknowledge(h.dispatch())
		h.addNode("node-b", 1)
		sleep(1500 * time.Millisecond)
		h.store.stallAfter("apply", 1300*time.Millisecond) // the check is between 1.6 s and 2.4 s after the ACK
		h.loseConnection("node-a", 1)
		sleep(1500 * time.Millisecond)
		h.wantOn(p.Job, "node-b", 2)
		if n := len(h.transport.deliveries()); n != 2 {
			t.Errorf("%d deliveries, want 2", n)
		}
		if err := h.done(h.placementOf(p.Job)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRefusedJobsDoNotStopOthers: a job for which no node is free does not keep another one, with other requirements, from moving.
func TestRefusedJobsDoNotStopOthers(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		large := func(p *core.Change) { p.Models = []string{"large"} }
		h.addNode("node-a", 8, large)
		var demanding, plain []dispatch.Placement
		for i := range 4 {
			demanding = append(demanding, h.acknowledge(h.dispatch(withRequestID(fmt.Sprint("demanding", i)), func(s *core.Spec) {
				s.Options.RequiredModels = []string{"large"}
			})))
			plain = append(plain, h.acknowledge(h.dispatch(withRequestID(fmt.Sprint("plain", i)))))
		}
		h.addNode("node-b", 8)
		h.loseConnection("node-a", 1)
		sleep(60 * time.Millisecond)
		for i := range 4 {
			h.wantOn(demanding[i].Job, "node-a", 1)
			h.wantOn(plain[i].Job, "node-b", 2)
		}
	})
}

// TestTwoMovers: two instances move the same job. One of them does, and the slot of the other is free.
func TestTwoMovers(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		other := h.otherInstance()
		defer other.Close()
		h.addNode("node-a", 1)
		p := h.acknowledge(h.dispatch())
		h.addNode("node-b", 1)
		h.addNode("node-c", 1)
		// The other instance takes the job over, because this one seemed dead.
		if err := other.Reconciler.TakeOverJobs(h.t.Context(), "i-test"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.fleet.OnLost(func(id core.NodeID, lost bool) {
			h.dispatcher.ConnectionChanged(id, lost)
			other.ConnectionChanged(id, lost)
		})
		h.loseConnection("node-a", 1)
		sleep(60 * time.Millisecond)
		j := h.job(p.Job)
		if !isHeld(j) || j.Attempt != 2 {
			t.Fatalf("%s, attempt %d", j.State, j.Attempt)
		}
		if n := h.inFlight("node-b") + h.inFlight("node-c"); n != 1 {
			t.Errorf("%d slots are taken, want 1", n)
		}
		if n := len(h.transport.deliveries()); n != 2 {
			t.Errorf("%d deliveries, want 2", n)
		}
	})
}

// TestWaitCountsFromTheLoss: a job that found no slot, and has to wait for one after the grace of its node, waits since the loss.
func TestWaitCountsFromTheLoss(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-b", 1)
		other := h.acknowledge(h.dispatch(withRequestID("other")))
		h.addNode("node-a", 1)
		p := h.acknowledge(h.dispatch())
		h.loseConnection("node-a", 1)
		sleep(2 * time.Second)
		ctx, cancel := context.WithCancel(h.t.Context())
		defer cancel()
		request := h.startWaiting(ctx, "request", 20*time.Second)
		sleep(time.Second)
		if err := h.registry.MarkLost(h.t.Context(), "node-a", h.fleet.Node("node-a").Epoch()); err != nil {
			t.Fatal(err)
		}
		sleep(time.Second)
		since := make(map[core.JobID]int64)
		for _, w := range h.queued() {
			since[waiting.JobOf(&w)] = w.Since
		}
		requested := spec(withRequestID("request"))
		if moved, asked := since[p.Job], since[requested.Job()]; moved == 0 || asked-moved != 2000 {
			t.Errorf("the job waits since %d, the request, which came 2 s after the loss, since %d", moved, asked)
		}
		if err := h.done(other); err != nil {
			t.Fatal(err)
		}
		sleep(100 * time.Millisecond)
		h.wantOn(p.Job, "node-b", 2)
		cancel()
		<-request.done
	})
}

// TestNodesThatMayHaveTheJobAreLeftOut: a job does not move to a node that did not acknowledge it.
func TestNodesThatMayHaveTheJobAreLeftOut(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-b", 2)
		p := h.dispatch()
		h.addNode("node-a", 1)
		h.advance(2*time.Second, "node-a", "node-b") // the time for the ACK
		h.acknowledge(h.placementOf(p.Job))
		h.wantOn(p.Job, "node-a", 2)
		h.loseConnection("node-a", 1)
		sleep(time.Second)
		h.wantOn(p.Job, "node-a", 2)
	})
}

// TestDelayOfASilentNode: the jobs of a silent node move like those of a lost one, and the time counts from when something came last.
func TestDelayOfASilentNode(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.acknowledge(h.dispatch())
		h.addNode("node-b", 1)
		if err := h.registry.Silent(h.t.Context(), "node-a", h.fleet.Node("node-a").Epoch(), 1, 2*time.Second); err != nil {
			t.Fatal(err)
		}
		if err := h.registry.Silent(h.t.Context(), "node-a", h.fleet.Node("node-a").Epoch()-1, 9, time.Second); err != nil {
			t.Errorf("of an earlier epoch: %v", err)
		}
		sleep(50 * time.Millisecond)
		h.wantOn(p.Job, "node-b", 2)
		var delay dto.Metric
		if err := h.metrics.MoveDelay.Write(&delay); err != nil || delay.Histogram.GetSampleCount() != 1 ||
			delay.Histogram.GetSampleSum() != 2.05 {
			t.Errorf("%v: the delay of the move: %v, want 2.05 s", err, delay.Histogram)
		}
		if err := h.registry.Heard(h.t.Context(), "node-a", h.fleet.Node("node-a").Epoch(), 1); err != nil {
			t.Fatal(err)
		}
		if n := h.fleet.Node("node-a").Declared(); n.Disconnected || n.SilentSince != 0 {
			t.Errorf("%+v", n)
		}
	})
}
