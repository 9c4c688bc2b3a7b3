package health_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/health"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

func TestReportMarksForAWhile(t *testing.T) {
	runWorker(t, func(h *workerHarness) {
		h.add("a", "b")
		h.start()
		h.report("a", "asr@1")
		h.report("b", "nmt")
		h.wantMarks([]string{"a/asr@1", "b/nmt"}, "a", "b")
		if !h.fleet.Node("a").Marked(&core.Service{ID: "asr", Version: "1"}, h.fleet.Now()) {
			h.t.Error("the fleet of this instance does not have the mark")
		}
		h.wantSeries("scheduler_model_na_marked_by_node_total", map[string]float64{"a": 1, "b": 1})
		h.wantSeries("scheduler_model_na_by_service_total", map[string]float64{"asr": 1, "nmt": 1})
		h.wantSeries("scheduler_model_na_by_reason_total", map[string]float64{"installing": 2})
		time.Sleep(time.Minute)
		h.wantMarks([]string{}, "a", "b")
		h.wantDropped(map[string]float64{})
	})
}

// TestReportOfAnEarlierStateMarksNothing: the node has registered again, or repaired the service, while its report was queued.
func TestReportOfAnEarlierStateMarksNothing(t *testing.T) {
	runWorker(t, func(h *workerHarness) {
		h.add("a", "b")
		h.report("a", "asr@1")
		h.report("b", "asr@1")
		h.add("a") // another epoch
		status := func(s core.ServiceStatus) {
			next := *h.nodes["b"]
			next.Services = []core.Service{{ID: "asr", Version: "1", Type: "asr", Status: s}}
			r, err := h.mem.Heartbeat(h.t.Context(), store.HeartbeatParams{Node: "b", Known: h.nodes["b"], Declared: &next, Load: core.UnknownLoad})
			if err != nil {
				t.Fatal(err)
			}
			h.nodes["b"] = r.Node
			h.fleet.Update(r.NodeStatus)
		}
		status(core.ServiceError)
		status(core.ServiceReady)
		h.start()
		h.wantMarks([]string{}, "a")
		h.wantDropped(map[string]float64{"gone": 1})
		for _, id := range []core.NodeID{"a", "b"} {
			if r := h.fleet.Node(id).Unready(false, h.fleet.Now()); r != core.ReasonNone {
				t.Errorf("%s is rejected: %s", id, r)
			}
		}
	})
}

func TestNodeRateAndWindow(t *testing.T) {
	runWorker(t, func(h *workerHarness) {
		h.add("a", "b")
		h.start()
		for i := range 5 {
			h.report("a", fmt.Sprint("s", i))
		}
		h.report("b", "s9") // the rate is per node
		h.wantMarks([]string{"a/s0", "a/s1", "a/s2", "b/s9"}, "a", "b")
		h.wantSeries("scheduler_model_na_rate_limited_by_node_total", map[string]float64{"a": 2})
		time.Sleep(10*time.Second - 1)
		h.report("a", "s5")
		h.wantSeries("scheduler_model_na_rate_limited_by_node_total", map[string]float64{"a": 3})
		time.Sleep(time.Nanosecond)
		h.report("a", "s6")
		h.wantMarks([]string{"a/s0", "a/s1", "a/s2", "a/s6"}, "a")
		h.wantSeries("scheduler_model_na_marked_by_node_total", map[string]float64{"a": 4, "b": 1})
	})
}

// TestNodeRateIsShared: reports of a node to several instances count together.
func TestNodeRateIsShared(t *testing.T) {
	runWorker(t, func(h *workerHarness) {
		h.add("a")
		h.start()
		h.report("a", "s0")
		h.report("a", "s1")
		synctest.Wait()
		h.stop()
		h.worker = health.NewUnavailableWorker(h.options) // another instance, with the same store
		h.start()
		h.report("a", "s2")
		h.report("a", "s3")
		if got := h.marks("a"); len(got) != 3 { // which of the last two depends on the markers
			t.Errorf("marks %v, want three", got)
		}
		h.wantSeries("scheduler_model_na_rate_limited_by_node_total", map[string]float64{"a": 1})
	})
}

// TestReactionIsDebounced: every report marks, and those of one service and version cause one reaction within the time.
func TestReactionIsDebounced(t *testing.T) {
	runWorker(t, func(h *workerHarness) {
		const many = 50
		ids := make([]core.NodeID, many)
		for i := range ids {
			ids[i] = core.NodeID(fmt.Sprintf("n%02d", i))
		}
		h.add(ids...)
		h.start()
		for _, id := range ids {
			h.report(id, "asr@1")
		}
		if got := h.marks(ids...); len(got) != many {
			t.Errorf("%d marks, want %d", len(got), many)
		}
		want := []string{"asr@1: installing"}
		check := func(when string) {
			t.Helper()
			if diff := cmp.Diff(want, h.events()); diff != "" {
				t.Errorf("%s: events (-want +got):\n%s", when, diff)
			}
			if got := h.catalog.list(); len(got) != len(want) {
				t.Errorf("%s: refreshes of %q, want %d", when, got, len(want))
			}
			if got := strings.Count(h.log.String(), "reports a service as unavailable"); got != len(want) {
				t.Errorf("%s: %d warnings, want %d", when, got, len(want))
			}
		}
		check("of many nodes")
		h.report(ids[0], "asr@2")
		h.report(ids[0], "asr")
		want = append(want, "asr@2: installing", "asr: installing")
		slices.Sort(want)
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(h.events()))); diff != "" {
			t.Errorf("other versions: events (-want +got):\n%s", diff)
		}
		want = h.events()
		time.Sleep(5*time.Second - 1)
		h.report(ids[1], "asr@1")
		check("within the time")
		time.Sleep(time.Nanosecond)
		h.report(ids[2], "asr@1")
		want = append(want, "asr@1: installing")
		check("after it")
	})
}

// TestReactionsAreLimited: nodes that report names at random mark them, and fill neither the event log nor the ModelHub's.
func TestReactionsAreLimited(t *testing.T) {
	runWorker(t, func(h *workerHarness) {
		const many = 300
		h.start()
		for i := range many {
			id := core.NodeID(fmt.Sprintf("n%03d", i))
			h.add(id)
			h.report(id, fmt.Sprintf("odd-%d\n\x1b[2J", i))
			if got := h.marks(id); len(got) != 1 {
				t.Fatalf("%s has the marks %q", id, got)
			}
		}
		const limit = 60
		if got := h.events(); len(got) != limit || got[0] != "odd-0??[2J: installing" {
			t.Errorf("%d events, want %d; the first is %q", len(got), limit, got[0])
		}
		if got := h.catalog.list(); len(got) != limit {
			t.Errorf("%d refreshes, want %d", len(got), limit)
		}
		h.wantDropped(map[string]float64{"reaction": many - limit})
		if got := len(series(t, h.metrics.Registry, "scheduler_model_na_by_service_total")); got != 101 {
			t.Errorf("%d series by service, want 100 and other", got)
		}
		if got := len(series(t, h.metrics.Registry, "scheduler_model_na_marked_by_node_total")); got != 101 {
			t.Errorf("%d series by node, want 100 and other", got)
		}
	})
}

// TestFullQueueDropsAndCounts: reports beyond the queue are dropped and counted, and no caller waits.
func TestFullQueueDropsAndCounts(t *testing.T) {
	runWorker(t, func(h *workerHarness) {
		var ids []core.NodeID
		for i := range maxMarks + 10 {
			ids = append(ids, core.NodeID(fmt.Sprint("n", i)))
		}
		h.add(ids...)
		before := time.Now()
		for _, id := range ids {
			h.report(id, "asr")
		}
		if got := time.Since(before); got != 0 || h.worker.Queued() != maxMarks {
			t.Errorf("%d reports are queued after %v", h.worker.Queued(), got)
		}
		h.wantDropped(map[string]float64{"queue_full": 10})
		h.start()
		if got := h.marks(ids...); len(got) != maxMarks {
			t.Errorf("%d marks, want %d", len(got), maxMarks)
		}
		if h.worker.Queued() != 0 {
			t.Errorf("%d reports are still queued", h.worker.Queued())
		}
	})
}

// TestNoisyNodeIsStoppedBeforeTheQueue: reports of a node beyond its rate are not queued, and take no place from others.
func TestNoisyNodeIsStoppedBeforeTheQueue(t *testing.T) {
	runWorker(t, func(h *workerHarness) {
		h.add("noisy", "quiet")
		for range 10 * maxMarks {
			h.report("noisy", "asr")
		}
		h.report("quiet", "asr")
		if h.worker.Queued() != 4 {
			t.Errorf("%d reports are queued, want three of the one node and one of the other", h.worker.Queued())
		}
		h.wantSeries("scheduler_model_na_rate_limited_by_node_total", map[string]float64{"noisy": 10*maxMarks - 3})
		h.start()
		h.wantMarks([]string{"noisy/asr", "quiet/asr"}, "noisy", "quiet")
		h.wantDropped(map[string]float64{})
	})
}

// TestSlowStoreBlocksNobody: while every call to the store hangs, reports are still taken and the rates are still counted, so that a
// node that reports without end takes no place from others; each call ends by its timeout.
func TestSlowStoreBlocksNobody(t *testing.T) {
	runWorker(t, func(h *workerHarness) {
		h.add("noisy", "quiet")
		hold := make(chan struct{})
		h.store.set(false, hold)
		h.start()
		for range 5 {
			for range 4 * maxMarks {
				h.report("noisy", "asr")
			}
			synctest.Wait()
		}
		h.report("quiet", "asr")
		synctest.Wait()
		if h.store.waiting() != markers || h.worker.Queued() != 0 { // three of the one node, one of the other
			t.Errorf("%d calls wait and %d reports are queued; want one for each report within the rates", h.store.waiting(), h.worker.Queued())
		}
		h.wantDropped(map[string]float64{})
		close(hold)
		h.wantMarks([]string{"noisy/asr", "quiet/asr"}, "noisy", "quiet")
	})
}

// TestDeadStoreDropsMarks: marks that cannot be written are counted and dropped, one timeout after the other, and marking resumes with
// the store.
func TestDeadStoreDropsMarks(t *testing.T) {
	runWorker(t, func(h *workerHarness) {
		for i := range 10 {
			h.add(core.NodeID(fmt.Sprint("n", i)))
		}
		h.store.set(false, make(chan struct{})) // never answers
		h.start()
		for i := range 10 {
			h.report(core.NodeID(fmt.Sprint("n", i)), "asr")
		}
		time.Sleep(6*time.Second - 1) // ten calls, four at a time, two seconds each
		h.wantDropped(map[string]float64{"store": 8})
		time.Sleep(time.Nanosecond)
		h.wantDropped(map[string]float64{"store": 10})
		h.store.set(true, nil)
		h.report("n0", "asr")
		h.wantDropped(map[string]float64{"store": 11})
		if h.fleet.Node("n0").Marked(&core.Service{ID: "asr"}, h.fleet.Now()) {
			t.Error("a mark that could not be written is in the fleet of this instance")
		}
		h.store.set(false, nil)
		h.report("n0", "asr")
		h.wantMarks([]string{"n0/asr"}, "n0")
	})
}

// TestReportThatWaitedTooLongIsDropped: it may be about a state of long ago.
func TestReportThatWaitedTooLongIsDropped(t *testing.T) {
	runWorker(t, func(h *workerHarness) {
		h.add("a", "b")
		h.report("a", "asr")
		time.Sleep(time.Second)
		h.report("b", "asr")
		time.Sleep(59 * time.Second)
		h.start()
		h.wantMarks([]string{"b/asr"}, "a", "b")
		h.wantDropped(map[string]float64{"late": 1})
	})
}

// TestStoppingWorkerMarksWhatIsQueued: what was accepted before the stop is marked.
func TestStoppingWorkerMarksWhatIsQueued(t *testing.T) {
	runWorker(t, func(h *workerHarness) {
		var ids []core.NodeID
		for i := range 200 {
			ids = append(ids, core.NodeID(fmt.Sprint("n", i)))
		}
		h.add(ids...)
		for _, id := range ids {
			h.report(id, "asr")
		}
		h.start()
		h.stop()
		if got := h.marks(ids...); len(got) != len(ids) {
			t.Errorf("%d marks, want %d", len(got), len(ids))
		}
		h.report("n0", "asr") // after the stop
		h.wantDropped(map[string]float64{"stopping": 1})
	})
}

// TestStoppingWorkerGivesUp: with a store that does not answer, the worker stops in time and counts what it drops.
func TestStoppingWorkerGivesUp(t *testing.T) {
	runWorker(t, func(h *workerHarness) {
		var ids []core.NodeID
		for i := range maxMarks / 2 {
			ids = append(ids, core.NodeID(fmt.Sprint("n", i)))
		}
		h.add(ids...)
		h.store.set(false, make(chan struct{})) // never answers
		h.start()
		for _, id := range ids {
			h.report(id, "asr")
		}
		synctest.Wait()
		before := time.Now()
		h.stop()
		if took := time.Since(before); took > 3*time.Second {
			t.Errorf("it stopped after %v", took)
		}
		dropped := series(t, h.metrics.Registry, "scheduler_model_na_dropped_total")
		if sum := dropped["store"] + dropped["stopping"]; sum != float64(len(ids)) || dropped["stopping"] < float64(len(ids)/2) {
			t.Errorf("dropped %v of %d", dropped, len(ids))
		}
	})
}
