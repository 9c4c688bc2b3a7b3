package dispatch_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// countingObserver counts what it is told, but for test jobs that are remembered.
type countingObserver struct{ calls atomic.Int32 }

func (o *countingObserver) Acknowledged(core.NodeID)                              { o.calls.Add(1) }
func (o *countingObserver) AttemptEnded(core.NodeID, core.Direction, core.Reason) { o.calls.Add(1) }
func (o *countingObserver) NodeSelected(core.Decision)                            {}
func (o *countingObserver) JobEnded(job *core.Job) {
	if !job.TestJob {
		o.calls.Add(1)
	}
}
func (o *countingObserver) RequestRefused(core.Direction, wire.Code, time.Duration) { o.calls.Add(1) }

// runProbes runs a test whose probes must not be observed.
func runProbes(t *testing.T, fn func(h *harness)) {
	t.Helper()
	var observer countingObserver
	runWith(t, func(c *dispatch.Config) { c.Observer, c.SpreadWindow = &observer, time.Minute }, fn)
	if n := observer.calls.Load(); n != 0 {
		t.Errorf("probes were observed %d times: they count for nothing", n)
	}
}

// probeOf is a probe of a node.
func probeOf(node string) *dispatch.TestJobParams {
	return &dispatch.TestJobParams{Node: core.NodeID(node), Direction: core.Direction{Src: "en", Tgt: "zh"}, Timeout: 10 * time.Second}
}

// probe probes a node, whose reaction to the delivery runs on its own.
func (h *harness) probe(p *dispatch.TestJobParams, react func(p dispatch.Placement)) (*dispatch.TestJobOutcome, error) {
	h.t.Helper()
	var wg sync.WaitGroup
	h.transport.onDelivery = func(a *wire.Assignment) {
		if react != nil {
			wg.Go(func() { react(h.newPlacement(core.JobID(a.JobID), core.NodeID(a.NodeID), a.AttemptID)) })
		}
	}
	out, err := h.dispatcher.RunTestJob(h.t.Context(), p)
	wg.Wait()
	synctest.Wait()
	return out, err
}

// wantProbe checks how a probe ended.
func wantProbe(t *testing.T, out *dispatch.TestJobOutcome, err error, state core.State, reason core.Reason) {
	t.Helper()
	switch {
	case err != nil:
		t.Fatal(err)
	case out.Job.State != state || out.Job.Reason != reason || !out.Job.TestJob:
		t.Errorf("%s %s (probe %v), want %s %s", out.Job.State, out.Job.Reason, out.Job.TestJob, state, reason)
	}
}

// TestProbeNode checks a probe of nodes that get no jobs by a decision of the scheduler, and the times of its stages.
func TestProbeNode(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(h *harness){
		"ready": func(*harness) {},
		"drained": func(h *harness) {
			if _, err := h.registry.Drain(h.t.Context(), "node-a", true); err != nil {
				h.t.Fatal(err)
			}
		},
		"ejected": func(h *harness) {
			a := core.Admission{Limited: true, Reason: core.AdmissionFailing, Times: 1}
			n, _, err := h.mem.Admit(h.t.Context(), store.AdmitParams{Node: "node-a", Admission: a, Fence: 1})
			if err != nil {
				h.t.Fatal(err)
			}
			h.fleet.Redeclare(n)
		},
		"set aside": func(h *harness) { h.fleet.Node("node-a").RecordMissedACK(h.fleet.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runProbes(t, func(h *harness) {
				h.addNode("node-a", 1)
				h.addNode("node-b", 4)
				prepare(h)
				aside := h.fleet.Node("node-a").SetAsideFor(h.fleet.Now())
				out, err := h.probe(probeOf("node-a"), func(p dispatch.Placement) {
					if n := h.inFlight("node-a"); n != 1 {
						t.Errorf("%d slots are taken by the probe", n)
					}
					synctest.Wait() // until the request that placed the probe has returned
					if counts := h.dispatcher.InFlightByDirection(); len(counts) > 0 || h.dispatcher.InFlight() != 1 {
						t.Errorf("in flight: %v, %d", counts, h.dispatcher.InFlight())
					}
					time.Sleep(30 * time.Millisecond)
					if err := h.ack(p); err != nil {
						t.Error(err)
					}
					time.Sleep(500 * time.Millisecond)
					for range 2 { // a result that comes twice is accepted once
						if err := h.done(p); err != nil {
							t.Error(err)
						}
					}
				})
				wantProbe(t, out, err, core.StateDone, "")
				if acked, ended := out.Acknowledged.Sub(out.Delivered), out.Ended.Sub(out.Acknowledged); acked != 30*time.Millisecond ||
					ended != 500*time.Millisecond {
					t.Errorf("acknowledged after %v, ended after another %v", acked, ended)
				}
				h.wantFree("node-a", "node-b")
				delivered := h.transport.deliveries()
				if len(delivered) != 1 || delivered[0].NodeID != "node-a" || !delivered[0].Probe ||
					delivered[0].AudioRef != wire.ProbeAudio || delivered[0].SessionID == "" || delivered[0].TimeoutMS != 10_000 {
					t.Errorf("delivered: %+v", delivered)
				}
				if now := h.fleet.Node("node-a").SetAsideFor(h.fleet.Now()); aside > 0 && now == 0 || aside == 0 && now > 0 {
					t.Errorf("set aside for %v, before for %v", now, aside)
				}
			})
		})
	}
}

// TestProbeRefused checks probes that are not sent, and that nothing is left of them.
func TestProbeRefused(t *testing.T) {
	t.Parallel()
	runProbes(t, func(h *harness) {
		h.addNode("node-a", 1)
		refused := func(p *dispatch.TestJobParams, code wire.Code, reason core.Reason) {
			t.Helper()
			_, err := h.probe(p, nil)
			wantCode(t, err, code)
			var e *wire.Error
			if errors.As(err, &e) && reason != "" {
				if diff := cmp.Diff(map[string]int{string(reason): 1}, e.Reasons); diff != "" {
					t.Errorf("reasons of %v (-want +got):\n%s", e, diff)
				}
			}
		}
		refused(probeOf("node-x"), wire.NotFound, "")
		other := probeOf("node-a")
		other.Direction = core.Direction{Src: "fr", Tgt: "zh"}
		refused(other, wire.PreferredNodeNotCapable, core.ReasonSemanticLang)

		if r, err := h.mem.Reserve(h.t.Context(), store.ReserveParams{
			Lease: core.LeaseRef{Node: "node-a", Job: "j", Attempt: 1, Token: "x.1"}, Epoch: h.fleet.Node("node-a").Epoch(),
			Revision: h.fleet.Node("node-a").Declared().Revision,
		}); err != nil || r.Verdict != store.OK {
			t.Fatal(r, err)
		}
		refused(probeOf("node-a"), wire.AllCandidatesFullOrFailed, core.ReasonFull)
		h.removeNode("node-a")
		synctest.Wait()
		refused(probeOf("node-a"), wire.NotFound, "")

		h.addNode("node-b", 2)
		for _, health := range []core.Health{core.HealthDegraded, core.HealthDraining, core.HealthOffline} {
			changed := *h.fleet.Node("node-b").Declared()
			changed.Health = health
			changed.Version++
			h.fleet.Redeclare(&changed)
			refused(probeOf("node-b"), wire.AllCandidatesFullOrFailed, core.ReasonNotReady)
		}
		h.addNode("node-c", 2)
		time.Sleep(timing.Presence + 2*time.Second)
		refused(probeOf("node-c"), wire.AllCandidatesFullOrFailed, core.ReasonStale)
		h.wantFree("node-b", "node-c")
		if jobs, err := h.mem.List(h.t.Context(), store.ListParams{}); err != nil || len(jobs) > 0 || len(h.transport.deliveries()) > 0 {
			t.Errorf("jobs %v, deliveries %v, %v", jobs, h.transport.deliveries(), err)
		}
	})
}

// TestProbeFails checks that a probe fails with its reason, is given to no other node, and that its slot becomes free.
func TestProbeFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		delivery error // of the transport
		react    func(h *harness, p dispatch.Placement)
		reason   core.Reason
		within   time.Duration
	}{
		"the node is busy":         {delivery: dispatch.ErrBusy, reason: core.ReasonNodeBusy, within: time.Second},
		"the node refuses":         {delivery: dispatch.ErrRefused, reason: core.ReasonDeliveryRefused, within: time.Second},
		"the delivery is unknown":  {delivery: errLost, reason: core.ReasonDeliveryUnknown, within: 3 * time.Second},
		"the node does not answer": {react: func(*harness, dispatch.Placement) {}, reason: core.ReasonACKTimeout, within: 3 * time.Second},
		"the node fails": {react: func(h *harness, p dispatch.Placement) { _ = h.fail(p, core.ReasonNodeFailed) },
			reason: core.ReasonNodeFailed, within: time.Second},
		"the node rejects": {react: func(h *harness, p dispatch.Placement) { _ = h.fail(p, core.ReasonNodeBusy) },
			reason: core.ReasonNodeBusy, within: time.Second},
		"no result comes": {react: func(h *harness, p dispatch.Placement) { _ = h.ack(p) }, reason: core.ReasonDeadline,
			within: 11 * time.Second},
		"an operator cancels it": {react: func(h *harness, p dispatch.Placement) { _, _, _ = h.dispatcher.Cancel(h.t.Context(), p.Job) },
			reason: core.ReasonCancelled, within: time.Second},
		"the node registers again": {react: func(h *harness, p dispatch.Placement) {
			_ = h.ack(p)
			_ = h.register("node-a", 1, store.Activity{Lists: true})
		}, reason: core.ReasonNodeLost, within: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runProbes(t, func(h *harness) {
				h.addNode("node-a", 1)
				h.addNode("node-b", 4)
				if tc.delivery != nil {
					h.transport.failWith("node-a", tc.delivery)
				}
				began := time.Now()
				out, err := h.probe(probeOf("node-a"), func(p dispatch.Placement) { tc.react(h, p) })
				state := core.StateFailed
				if tc.reason == core.ReasonCancelled {
					state = core.StateCancelled
				}
				wantProbe(t, out, err, state, tc.reason)
				if took := time.Since(began); took > tc.within {
					t.Errorf("it took %v, want at most %v", took, tc.within)
				}
				for _, a := range h.transport.deliveries() {
					if a.NodeID != "node-a" {
						t.Errorf("it was given to %s", a.NodeID)
					}
				}
				if now := h.fleet.Node("node-a"); now == nil || now.IsSetAside(h.fleet.Now()) {
					t.Error("the node is set aside, or gone: a probe counts for nothing")
				}
				// The node is gone: with nobody's help the slot is free within the time of a lease.
				time.Sleep(timing.Presence + time.Second)
				h.wantFree("node-a", "node-b")
				if n := h.dispatcher.InFlight(); n != 0 {
					t.Errorf("%d jobs in flight", n)
				}
			})
		})
	}
}

// TestProbeWithoutCaller checks that a probe whose caller leaves ends as it would have.
func TestProbeWithoutCaller(t *testing.T) {
	t.Parallel()
	runProbes(t, func(h *harness) {
		h.addNode("node-a", 1)
		ctx, cancel := context.WithCancel(h.t.Context())
		var placed dispatch.Placement
		h.transport.onDelivery = func(a *wire.Assignment) {
			placed = h.newPlacement(core.JobID(a.JobID), core.NodeID(a.NodeID), a.AttemptID)
			time.AfterFunc(50*time.Millisecond, cancel)
		}
		_, err := h.dispatcher.RunTestJob(ctx, probeOf("node-a"))
		wantCode(t, err, wire.DeadlineExceeded)
		if err := errors.Join(h.ack(placed), h.done(placed)); err != nil {
			t.Fatal(err)
		}
		h.wantState(placed.Job, core.StateDone, "")
		h.wantFree("node-a")
	})
}

// TestProbeWithFaultyStore checks that no slot and no record is left in use when a call to the store fails, or its reply is lost.
func TestProbeWithFaultyStore(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"reserve", "create", "apply"} {
		for _, down := range []bool{true, false} {
			t.Run(operation+map[bool]string{true: " fails", false: " loses its reply"}[down], func(t *testing.T) {
				t.Parallel()
				runProbes(t, func(h *harness) {
					h.addNode("node-a", 1)
					h.store.failNext(down, operation, 1)
					out, err := h.probe(probeOf("node-a"), func(p dispatch.Placement) {
						_ = h.ack(p)
						for range 3 { // a node repeats its result until it is acknowledged
							if h.done(p) == nil {
								return
							}
						}
					})
					if operation == "apply" {
						wantProbe(t, out, err, core.StateDone, "")
					} else {
						wantCode(t, err, wire.SchedulerDependencyDown)
					}
					time.Sleep(5 * time.Second)
					h.heartbeat("node-a", []store.ActiveJob{})
					h.heartbeat("node-a", []store.ActiveJob{})
					synctest.Wait()
					h.wantFree("node-a")
					open, err := h.mem.List(h.t.Context(), store.ListParams{Phase: store.PhaseOpen})
					if err != nil || len(open) > 0 || h.dispatcher.InFlight() > 0 {
						t.Errorf("open: %v, %d in flight, %v", open, h.dispatcher.InFlight(), err)
					}
				})
			})
		}
	}
}

// TestProbeThroughAnotherInstance checks that the acknowledgement and the result may arrive at another instance.
func TestProbeThroughAnotherInstance(t *testing.T) {
	t.Parallel()
	runProbes(t, func(h *harness) {
		h.addNode("node-a", 1)
		other := h.otherInstance()
		defer other.Close()
		out, err := h.probe(probeOf("node-a"), func(p dispatch.Placement) {
			if err := other.Reports.Ack(h.t.Context(), reportOf(p)); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			if err := other.Reports.Done(h.t.Context(), reportOf(p), []byte(`{}`)); err != nil {
				t.Error(err)
			}
		})
		wantProbe(t, out, err, core.StateDone, "")
		if took := out.Ended.Sub(out.Recorded); took != time.Second {
			t.Errorf("it took %v", took)
		}
		if acked := out.Acknowledged.Sub(out.Delivered); acked < 0 || acked > 200*time.Millisecond {
			t.Errorf("the acknowledgement was seen after %v", acked)
		}
		h.wantFree("node-a")
	})
}

// TestProbeOfADeadInstance checks that the probe of an instance that dies is followed to its end by another one, and not given to another
// node.
func TestProbeOfADeadInstance(t *testing.T) {
	t.Parallel()
	for _, acknowledged := range []bool{true, false} {
		t.Run(map[bool]string{true: "acknowledged", false: "not acknowledged"}[acknowledged], func(t *testing.T) {
			t.Parallel()
			runProbes(t, func(h *harness) {
				h.addNode("node-a", 1)
				h.addNode("node-b", 1)
				dead := h.otherInstance()
				delivered := make(chan dispatch.Placement, 1)
				h.transport.onDelivery = func(a *wire.Assignment) {
					delivered <- h.newPlacement(core.JobID(a.JobID), core.NodeID(a.NodeID), a.AttemptID)
				}
				failed := make(chan error)
				go func() {
					_, err := dead.RunTestJob(h.t.Context(), probeOf("node-a"))
					failed <- err
				}()
				placed := <-delivered
				synctest.Wait()
				if acknowledged {
					if err := dead.Reports.Ack(h.t.Context(), reportOf(placed)); err != nil {
						t.Fatal(err)
					}
				}
				go dead.Close()
				wantCode(t, <-failed, wire.SchedulerDependencyDown)
				time.Sleep(3 * time.Second)
				if err := h.dispatcher.Reconciler.TakeOverJobs(h.t.Context(), "i-other"); err != nil {
					t.Fatal(err)
				}
				h.advance(8*time.Second, "node-a", "node-b")
				want := core.ReasonACKTimeout
				if acknowledged {
					want = core.ReasonDeadline
				}
				h.wantState(placed.Job, core.StateFailed, want)
				h.transport.drop(placed)
				h.advance(3*time.Second, "node-a", "node-b")
				h.wantFree("node-a", "node-b")
				if n := len(h.transport.deliveries()); n != 1 {
					t.Errorf("%d deliveries", n)
				}
			})
		})
	}
}

// TestProbesAreLimited checks that an instance makes a limited number of probes at once.
func TestProbesAreLimited(t *testing.T) {
	t.Parallel()
	runProbes(t, func(h *harness) {
		h.addNode("node-a", 100)
		var wg sync.WaitGroup
		var refused atomic.Int32
		for range 40 {
			wg.Go(func() {
				_, err := h.dispatcher.RunTestJob(h.t.Context(), probeOf("node-a"))
				var e *wire.Error
				if errors.As(err, &e) && e.Code == wire.RateLimited {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		if n := refused.Load(); n != 8 {
			t.Errorf("%d of 40 were refused, want 8", n)
		}
		wg.Wait()
		if out, err := h.probe(probeOf("node-a"), func(p dispatch.Placement) { _ = h.done(p) }); err != nil ||
			out.Job.State != core.StateDone {
			t.Errorf("after that: %+v, %v", out, err)
		}
	})
}

// TestProbeTimeoutIsLimited checks that a probe ends with the time of an attempt, when the slot of a node that never lists its jobs is
// given up.
func TestProbeTimeoutIsLimited(t *testing.T) {
	t.Parallel()
	runProbes(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := probeOf("node-a")
		p.Timeout = time.Minute
		began := time.Now()
		out, err := h.probe(p, func(p dispatch.Placement) { _ = h.ack(p) })
		wantProbe(t, out, err, core.StateFailed, core.ReasonDeadline)
		if took := time.Since(began); took > timing.Attempt+time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestProbeLeaseIsRestored checks that the slot of a probe of a drained node is taken again if the ledger has lost its lease.
func TestProbeLeaseIsRestored(t *testing.T) {
	t.Parallel()
	runProbes(t, func(h *harness) {
		h.addNode("node-a", 1)
		if _, err := h.registry.Drain(h.t.Context(), "node-a", true); err != nil {
			t.Fatal(err)
		}
		out, err := h.probe(probeOf("node-a"), func(p dispatch.Placement) {
			job := h.job(p.Job)
			lease := core.LeaseRef{Node: job.Node, Job: job.ID, Attempt: job.Attempt, Token: job.Token}
			if err := h.mem.Release(h.t.Context(), store.ReleaseParams{Lease: lease}); err != nil {
				t.Error(err)
			}
			h.wantFree("node-a")
			if err := h.ack(p); err != nil {
				t.Error(err)
			}
			if n := h.inFlight("node-a"); n != 1 {
				t.Errorf("%d slots are taken after the acknowledgement", n)
			}
			if err := h.done(p); err != nil {
				t.Error(err)
			}
		})
		wantProbe(t, out, err, core.StateDone, "")
		h.wantFree("node-a")
	})
}
