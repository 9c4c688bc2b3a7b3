package server_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// counted is GET /api/v1/metrics.
func (ts *testScheduler) counted() wire.Metrics {
	ts.t.Helper()
	var m wire.Metrics
	ts.get("/api/v1/metrics").decode(&m)
	return m
}

// TestMetricsJSONAtStart: an instance that has done nothing answers with zeros and empty lists, never with null.
func TestMetricsJSONAtStart(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	m := ts.counted()
	if m.Instance != string(ts.scheduler.Bus.Instance()) || m.UptimeMS < 0 {
		t.Errorf("%+v", m)
	}
	if m.Dispatch.SuccessShare != 1 || m.Dispatch.ModelHubDown != (wire.MetricsHubDown{MetricsOutcome: wire.MetricsOutcome{SuccessShare: 1}}) {
		t.Errorf("dispatch: %+v", m.Dispatch)
	}
	if body := string(ts.get("/api/v1/metrics").body); strings.Contains(body, "null") {
		t.Errorf("the answer contains null: %s", body)
	}
}

// TestMetricsJSON: dispatches, refusals with their reasons, reports of services, requests for statistics and utterances are counted.
func TestMetricsJSON(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, oftenStats)
	n := ts.registerNode("n1", object{"installed_services": allServices(), "max_concurrent_jobs": 2})
	ts.registerNode("n2", object{"installed_services": allServices()})
	ts.post("/v1/nodes/n2/drain", nil)
	for range 2 {
		d, _ := ts.dispatchAndReceive(dispatchBody(nil))
		n.ack(d, nil)
	}
	for range 3 {
		ts.post("/v1/dispatch/f2f", dispatchBody(nil)).expectError(wire.AllCandidatesFullOrFailed)
	}
	ts.post("/v1/dispatch/f2f", dispatchBody(object{"src_lang": "fr"})).expectError(wire.NoCapableNode)
	ts.reportUnavailable(object{"node_id": "n2", "service_id": "tts-1", "reason": "gpu on fire"})
	ts.waitForStats()

	m := ts.counted()
	if want := (wire.MetricsOutcome{Accepted: 2, Refused: 4, SuccessShare: 1.0 / 3}); m.Dispatch.MetricsOutcome != want {
		t.Errorf("dispatches: %+v, want %+v", m.Dispatch.MetricsOutcome, want)
	}
	if m.Dispatch.P99MS <= 0 || m.Dispatch.P99MS < m.Dispatch.P95MS {
		t.Errorf("quantiles: %+v", m.Dispatch)
	}
	exclude := map[string]wire.MetricsExclusion{"FULL": {Count: 3, Nodes: []string{"n1"}}, "DRAINED": {Count: 3, Nodes: []string{"n2"}}}
	if diff := cmp.Diff(exclude, m.DispatchExclude.ByReason, cmpopts.IgnoreFields(wire.MetricsExclusion{}, "LastMS")); diff != "" || m.DispatchExclude.ByReason["FULL"].LastMS == 0 {
		t.Errorf("dispatch_exclude.by_reason (-want +got):\n%s", diff)
	}
	na := wire.MetricsModelNA{
		Received: 1, Marked: 1, ByServiceTop: []wire.MetricsCount{{Name: "tts-1", Count: 1}}, ByReasonTop: []wire.MetricsCount{{Name: "runtime_error", Count: 1}},
		LimitedTop: []wire.MetricsCount{}, MarkedTop: []wire.MetricsCount{{Name: "n2", Count: 1}},
	}
	if diff := cmp.Diff(na, m.ModelNotAvailable, cmpopts.IgnoreFields(wire.MetricsModelNA{}, "DroppedBy")); diff != "" || m.ModelNotAvailable.DroppedBy["queue_full"] != 0 {
		t.Errorf("model_not_available (-want +got):\n%s", diff)
	}
	if s := m.Stats; s.Requests == 0 || s.SnapshotMS == 0 || s.P99MS <= 0 {
		t.Errorf("stats: %+v", s)
	}
	if m.Catalog != (wire.MetricsCatalog{}) {
		t.Errorf("the catalog without a ModelHub: %+v", m.Catalog)
	}
	ts.eventually("the dispatches are in the rate", func() bool {
		d := ts.counted().Dispatch
		return d.PerSecond10s > 0 && d.PerSecond1m > 0
	})

	ts.startSession(nil).sendUtterance()
	ts.eventually("the utterance is counted", func() bool {
		s := ts.counted().Segmentation
		return s.Manual == 1 && s.Automatic == 0 && s.ByReason["manual"] == 1
	})
}

// TestMetricsJSONTopIsBounded: the lists have the most frequent names, at most twenty.
func TestMetricsJSONTopIsBounded(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	for i := range 300 {
		for range i % 50 {
			ts.scheduler.Metrics.NAByService.WithLabelValues(fmt.Sprintf("s-%03d", i)).Inc()
		}
		ts.scheduler.Metrics.NAMarked.WithLabelValues(fmt.Sprintf("n-%03d", i)).Inc()
	}
	na := ts.counted().ModelNotAvailable
	if len(na.ByServiceTop) != 20 || na.ByServiceTop[0].Name != "other" || na.ByServiceTop[1] != (wire.MetricsCount{Name: "s-049", Count: 49}) {
		t.Errorf("%d services: %+v", len(na.ByServiceTop), na.ByServiceTop)
	}
	if na.Marked != 300 || len(na.MarkedTop) != 20 || na.MarkedTop[0] != (wire.MetricsCount{Name: "other", Count: 200}) {
		t.Errorf("%d marked: %+v", na.Marked, na.MarkedTop)
	}
}

// TestMetricsJSONWhileModelHubIsDown: dispatches while the ModelHub fails are a figure of their own, and they succeed.
func TestMetricsJSONWhileModelHubIsDown(t *testing.T) {
	t.Parallel()
	ts, hub := startWithModelHub(t, lab.FaultNone)
	ts.registerNode("n1", object{"max_concurrent_jobs": 10})
	ts.eventually("the catalog is fetched", func() bool { return ts.counted().Catalog.LastSuccessMS > 0 })
	ts.dispatch(dispatchBody(nil))
	hub.SetFault(lab.FaultFail)
	ts.eventually("the ModelHub is down", func() bool { return ts.counted().Dispatch.ModelHubDown.Now })
	for range 3 {
		ts.dispatch(dispatchBody(nil))
	}
	ts.post("/v1/dispatch/f2f", dispatchBody(object{"src_lang": "fr"})).expectError(wire.NoCapableNode)
	m := ts.counted()
	if want := (wire.MetricsOutcome{Accepted: 3, Refused: 1, SuccessShare: 0.75}); m.Dispatch.ModelHubDown.MetricsOutcome != want || m.Dispatch.Accepted != 4 {
		t.Errorf("dispatches: %+v, want %+v while it is down", m.Dispatch, want)
	}
	if c := m.Catalog; !c.Configured || c.FailCount == 0 || c.LastError == "" || c.Services == 0 || c.FetchedMS == 0 {
		t.Errorf("the catalog: %+v", c)
	}
	hub.SetFault(lab.FaultNone)
	ts.eventually("the ModelHub is back", func() bool { return !ts.counted().Dispatch.ModelHubDown.Now })
}

// TestMetricsJSONDoesNotUseTheStore: the answer comes at once while Redis does not answer, and /metrics has the errors by class.
func TestMetricsJSONDoesNotUseTheStore(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	ts := startScheduler(t, func(c *config.Config) { c.Store, c.Scheduler.Dispatch.DecideWithinMS = r.URL(), 500 })
	ts.registerNode("n1", nil)
	r.Stop()
	defer r.Continue()
	ts.post("/v1/dispatch/f2f", dispatchBody(nil)).expectError(wire.SchedulerDependencyDown)
	if m := ts.counted(); m.Dispatch.Refused != 1 {
		t.Errorf("dispatches: %+v", m.Dispatch)
	}
	if counted := regexp.MustCompile(`lingua_redis_errors_total\{class="timeout"\} [1-9]`); !counted.Match(ts.get("/metrics").body) {
		t.Error("no timeout of Redis is counted")
	}
}
