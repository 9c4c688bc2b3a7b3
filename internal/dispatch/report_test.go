package dispatch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestResultBeforeACK(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		if err := h.done(p); err != nil {
			t.Fatal(err)
		}
		if err := h.ack(p); err != nil {
			t.Errorf("the ACK of a job that is done: %v", err)
		}
		h.wantState(p.Job, core.StateDone, "")
		h.wantFree("node-a")
	})
}

// TestReportAboutAJobOfAnotherTenant: a job of another tenant does not exist for a node, also for one that this instance does not see any
// more.
func TestReportAboutAJobOfAnotherTenant(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		for tenant, want := range map[core.TenantID]wire.Code{"beta": wire.NotFound, "": wire.NotHolder} {
			r := dispatch.Report{Job: p.Job, Holder: core.Holder{Attempt: p.Attempt, Node: "node-gone"}, Tenant: tenant}
			wantCode(t, h.dispatcher.Reports.Ack(t.Context(), r), want)
			wantCode(t, h.dispatcher.Reports.Done(t.Context(), r, nil), want)
			wantCode(t, h.dispatcher.Reports.Fail(t.Context(), r, core.ReasonNodeFailed, ""), want)
			_, err := h.dispatcher.Reports.CheckHolder(t.Context(), r)
			wantCode(t, err, want)
		}
	})
}

// TestReportDuringStoreFailureCanBeRepeated: a report during a store failure is refused as retryable, and the
// repeat takes effect once, whether or not the first was applied.
func TestReportDuringStoreFailureCanBeRepeated(t *testing.T) {
	t.Parallel()
	for _, down := range []bool{true, false} {
		runTest(t, func(h *harness) {
			h.addNode("node-a", 1)
			p := h.dispatch()
			h.store.failNext(down, "commit", 1)
			wantCode(t, h.ack(p), wire.SchedulerDependencyDown)
			if err := h.ack(p); err != nil {
				t.Fatal(err)
			}
			h.store.failNext(down, "apply", 1)
			wantCode(t, h.done(p), wire.SchedulerDependencyDown)
			if err := h.done(p); err != nil {
				t.Fatal(err)
			}
			h.wantState(p.Job, core.StateDone, "")
			h.wantFree("node-a")
			if h.dispatcher.InFlight() != 0 {
				t.Errorf("%d jobs in flight, want none", h.dispatcher.InFlight())
			}
		})
	}
}

func (h *harness) wantLost(kind string, n float64) {
	h.t.Helper()
	if got := testutil.ToFloat64(h.metrics.StoreLost.WithLabelValues(kind)); got != n {
		h.t.Errorf("%v lost %ss counted, want %v", got, kind, n)
	}
}

func TestLostRecordIsRestored(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		f := h.makeLossy()
		h.addNode("node-a", 1)
		p := h.dispatch()
		f.lose(true, false, p.Job)
		if err := h.done(p); err != nil {
			t.Fatalf("the result: %v", err)
		}
		h.wantState(p.Job, core.StateDone, "")
		h.wantFree("node-a")
		h.wantLost("record", 1)
	})
}

func TestLostRecordDoesNotStopRetry(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		f := h.makeLossy()
		h.addNode("node-a", 1)
		h.addNode("node-b", 1)
		p := h.dispatch()
		f.lose(true, false, p.Job)
		h.advance(3*time.Second, "node-a", "node-b") // no ACK: it moves
		second := h.placementOf(p.Job)
		if second.Node == p.Node || second.Attempt != 2 {
			t.Fatalf("placed at %+v, was at %+v", second, p)
		}
		if err := h.done(second); err != nil {
			t.Fatal(err)
		}
		h.wantState(p.Job, core.StateDone, "")
	})
}

// TestRetryOutlivesEmptiedStore: a job is between two nodes when the store is emptied. Its new record has lower versions than the lost one
// had, and the job is given to a node all the same.
func TestRetryOutlivesEmptiedStore(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		records := &emptiableStore{Store: h.store.Store}
		records.empty()
		h.store.Store = records
		h.addNode("node-a", 1)
		p := h.acknowledge(h.dispatch())
		for range 5 { // each changes the record
			if err := h.register("node-a", 1,
				store.Activity{Lists: true, Active: []store.ActiveJob{{Job: p.Job, Attempt: 1}}}); err != nil {
				t.Fatal(err)
			}
		}
		p = h.placementOf(p.Job)
		if err := h.fail(p, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		h.removeNode("node-a")
		before := h.job(p.Job)
		records.empty()
		h.dispatcher.Reconciler.RestoreRecords()
		synctest.Wait()
		if now := h.job(p.Job); now.State != core.StateRetrying || now.Version >= before.Version {
			t.Fatalf("the record is %+v, was %+v", now, before)
		}
		h.addNode("node-c", 1)
		h.advance(3*time.Second, "node-c")
		moved := h.placementOf(p.Job)
		if moved.Node != "node-c" || !slices.ContainsFunc(h.transport.delivered,
			func(a wire.Assignment) bool { return a.NodeID == "node-c" && a.JobID == string(p.Job) }) {
			t.Fatalf("placed at %+v, delivered %+v", moved, h.transport.delivered)
		}
		if err := h.done(moved); err != nil {
			t.Fatal(err)
		}
		h.wantState(p.Job, core.StateDone, "")
		h.advance(timing.Job+timing.Attempt, "node-c")
		if n := h.dispatcher.InFlight(); n != 0 {
			t.Errorf("%d jobs in flight", n)
		}
	})
}

func TestFailureOfJobWithLostRecord(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		f := h.makeLossy()
		h.addNode("node-a", 1)
		h.addNode("node-b", 1)
		p := h.dispatch()
		f.lose(true, false, p.Job)
		if err := h.fail(p, core.ReasonNodeFailed); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now := h.placementOf(p.Job); now.Node == p.Node || now.Attempt != 2 {
			t.Errorf("placed at %+v, was at %+v", now, p)
		}
	})
}

func TestLostLeaseIsRestored(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		f := h.makeLossy()
		h.addNode("node-a", 2)
		p := h.dispatch()
		f.lose(false, true, p.Job)
		if err := h.ack(p); err != nil {
			t.Fatalf("the ACK: %v", err)
		}
		h.wantState(p.Job, core.StateAcked, "")
		h.wantLost("lease", 1)
		if err := h.done(p); err != nil {
			t.Fatal(err)
		}
		h.wantFree("node-a")
	})
}

// TestExpiredRecordIsNotRestored: the record of a job that has ended here is not written again.
func TestExpiredRecordIsNotRestored(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		f := h.makeLossy()
		h.addNode("node-a", 1)
		p := h.dispatch()
		if err := h.done(p); err != nil {
			t.Fatal(err)
		}
		f.lose(true, false, p.Job)
		wantCode(t, h.done(p), wire.NotFound)
		h.wantLost("record", 0)
	})
}

func TestUnavailableServiceIsMarkedAndJobRetried(t *testing.T) {
	t.Parallel()
	with := func(p *core.Change) { p.Services = []core.Service{{ID: "asr-x", Status: core.ServiceReady}} }
	needs := func(s *core.Spec) { s.Options.RequiredServices = []string{"asr-x"} }
	runTest(t, func(h *harness) {
		h.addNode("node-a", 5, with)
		p := h.dispatch(needs)
		h.addNode("node-b", 5, with)
		err := h.registry.ReportUnavailable(h.t.Context(), core.UnavailableReport{UnavailableService: core.UnavailableService{Node: "node-a", Service: "asr-x"}, Job: p.Job, Attempt: 1})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now := h.placementOf(p.Job); now.Node != "node-b" {
			t.Errorf("the job that failed because of it is at %+v", now)
		}
		for i := range 4 {
			if p := h.dispatch(needs, withRequestID(fmt.Sprint("r", i))); p.Node != "node-b" {
				t.Errorf("a marked node got a job that requires the service")
			}
		}
		e := h.dispatchRefused(needs, withRequestID("full"))
		if e.Reasons["SERVICE_MARKED_UNAVAILABLE"] != 1 {
			t.Errorf("refusal %+v", e)
		}
		if p := h.dispatch(withRequestID("plain")); p.Node != "node-a" {
			t.Errorf("a job that does not require the service: %+v", p)
		}
	})
}

func TestUnavailableReportsAreRateLimited(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		u := core.UnavailableReport{UnavailableService: core.UnavailableService{Node: "node-a", Service: "asr-x"}}
		for range 60 {
			if err := h.registry.ReportUnavailable(h.t.Context(), u); err != nil {
				t.Fatal(err)
			}
		}
		u.Service = "asr-y"
		if err := h.registry.ReportUnavailable(h.t.Context(), u); err != nil {
			t.Errorf("a report over the rate is answered with %v, want that it is accepted", err)
		}
		synctest.Wait()
		if marks, err := h.mem.Marked(t.Context(), "node-a"); err != nil || len(marks) != 1 || marks[0].Service != "asr-x" {
			t.Errorf("marks %+v, %v; want only the one within the rate", marks, err)
		}
		u.Node = "node-x"
		wantCode(t, h.registry.ReportUnavailable(h.t.Context(), u), wire.NotFound)
	})
}

func TestLateResultWhileRetrying(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		h.advance(5*time.Second, "node-a")
		h.wantState(p.Job, core.StateRetrying, core.ReasonACKTimeout)
		if err := h.done(p); err != nil {
			t.Fatalf("a late result: %v", err)
		}
		h.wantState(p.Job, core.StateDone, "")
		h.advance(2*time.Second, "node-a")
		h.wantFree("node-a")
	})
}

func TestReportsNotFromTheHolderAreFenced(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		foreign, future, old := p, p, reportOf(p)
		foreign.Node, future.Attempt = "node-z", 9
		old.Epoch = 1
		unknown := p
		unknown.Job = "job-unknown"
		for _, send := range []func(dispatch.Report) error{
			func(r dispatch.Report) error { return h.dispatcher.Reports.Ack(h.t.Context(), r) },
			func(r dispatch.Report) error { return h.dispatcher.Reports.Done(h.t.Context(), r, nil) },
			func(r dispatch.Report) error {
				return h.dispatcher.Reports.Fail(h.t.Context(), r, core.ReasonNodeFailed, "")
			},
		} {
			wantCode(t, send(reportOf(foreign)), wire.NotHolder)
			wantCode(t, send(reportOf(future)), wire.StaleAttempt)
			wantCode(t, send(old), wire.StaleEpoch)
			wantCode(t, send(reportOf(unknown)), wire.NotFound)
		}
		h.wantState(p.Job, core.StateDispatched, "")
		if n := h.inFlight("node-a"); n != 1 {
			t.Errorf("%d slots taken after forged messages, want 1", n)
		}
		if err := h.ack(p); err != nil {
			t.Errorf("the holder's own ACK: %v", err)
		}
	})
}

// TestUnavailableReportOverRateRetriesJob: only the marks are limited, because the node has given the job up either way.
func TestUnavailableReportOverRateRetriesJob(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("a", 4)
		first := h.dispatch()
		if err := h.ack(first); err != nil {
			t.Fatal(err)
		}
		h.addNode("b", 4)
		report := func() error {
			return h.registry.ReportUnavailable(t.Context(), core.UnavailableReport{UnavailableService: core.UnavailableService{Node: "a", Service: "s"}, Job: first.Job, Attempt: 1})
		}
		for range 60 {
			if err := h.registry.ReportUnavailable(t.Context(), core.UnavailableReport{UnavailableService: core.UnavailableService{Node: "a", Service: "other"}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := report(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p := h.placementOf(first.Job); p.Node != "b" || p.Attempt != 2 {
			t.Errorf("the job is at %+v, want attempt 2 on b", p)
		}
		// Repeated after a lost reply it changes nothing.
		if err := report(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p := h.placementOf(first.Job); p.Node != "b" || p.Attempt != 2 {
			t.Errorf("after a repeat the job is at %+v, want attempt 2 on b", p)
		}
		if marks, err := h.mem.Marked(t.Context(), "a"); err != nil || len(marks) != 1 || marks[0].Service != "other" {
			t.Errorf("marks %+v, %v; want only the one within the rate", marks, err)
		}
	})
}

// TestUnavailableReportRetriesJobWithoutMark: the job is retried although the mark could not be written.
func TestUnavailableReportRetriesJobWithoutMark(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("a", 4)
		first := h.dispatch()
		h.addNode("b", 4)
		h.store.failNext(true, "mark", 1)
		if err := h.registry.ReportUnavailable(t.Context(),
			core.UnavailableReport{UnavailableService: core.UnavailableService{Node: "a", Service: "s"}, Job: first.Job, Attempt: 1}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p := h.placementOf(first.Job); p.Node != "b" || p.Attempt != 2 {
			t.Errorf("the job is at %+v, want attempt 2 on b", p)
		}
		h.wantState(first.Job, core.StateDispatched, core.ReasonModelNotAvailable)
		if marks, err := h.mem.Marked(t.Context(), "a"); err != nil || len(marks) != 0 {
			t.Errorf("marks %+v, %v; want none", marks, err)
		}
	})
}

// TestLateACKWhileRetrying: a late ACK is accepted while no other node has the job, because the node's result will be taken.
func TestLateACKWhileRetrying(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		h.advance(3*time.Second, "node-a")
		h.wantState(p.Job, core.StateRetrying, core.ReasonACKTimeout)
		if err := h.ack(p); err != nil {
			t.Errorf("the ACK: %v", err)
		}
		if log := h.warnings.String(); !strings.Contains(log, "an acknowledgement came late") || !strings.Contains(log, "node_id=node-a") {
			t.Errorf("the late ACK is not logged:\n%s", log)
		}
		if err := h.done(p); err != nil {
			t.Errorf("the result: %v", err)
		}
		h.wantState(p.Job, core.StateDone, "")
		h.wantFree("node-a")
	})
}

// TestResultIsRepeatedAfterRegistration: a node that did not receive the acknowledgement of its result and has registered again
// sends the result again. It is accepted, and the job keeps its first result.
func TestResultIsRepeatedAfterRegistration(t *testing.T) {
	t.Parallel()
	runTest(t, func(h *harness) {
		h.addNode("node-a", 1)
		p := h.dispatch()
		if err := h.done(p); err != nil {
			t.Fatal(err)
		}
		first := h.job(p.Job)
		h.addNode("node-a", 1)
		r := reportOf(p)
		if r.Epoch = h.fleet.Node("node-a").Epoch(); r.Epoch <= first.Epoch {
			t.Fatalf("registered again in epoch %d, after %d", r.Epoch, first.Epoch)
		}
		if err := h.dispatcher.Reports.Done(t.Context(), r, []byte(`{"text_tgt":"another"}`)); err != nil {
			t.Errorf("the repeated result: %v", err)
		}
		if now := h.job(p.Job); now.State != core.StateDone || string(now.Result) != string(first.Result) {
			t.Errorf("the job is %s with the result %s, which was %s", now.State, now.Result, first.Result)
		}
		h.wantFree("node-a")
	})
}
