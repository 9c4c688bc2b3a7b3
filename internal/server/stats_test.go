package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// oftenStats makes the statistics more often than a configuration may.
func oftenStats(c *config.Config) { c.Scheduler.Stats.IntervalSeconds = 1 }

// waitForStats waits until there are statistics: an instance that has just started has none.
func (ts *testScheduler) waitForStats() response {
	ts.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		r := ts.get("/api/v1/stats")
		if r.status == http.StatusOK || time.Since(began) > 20*time.Second {
			return r
		}
		if e := r.expectError(wire.StatsNotReady); e.RetryAfterMS == 0 {
			ts.t.Error("the refusal does not say when to try again")
		}
	}
}

// TestStats: the statistics contain the nodes, and the jobs that ended.
func TestStats(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, oftenStats)
	n := ts.registerNode("n1", nil)
	d, _ := ts.dispatchAndReceive(dispatchBody(nil))
	n.ack(d, nil)
	n.done(d, object{"result": object{"text_tgt": "好"}})
	ts.post("/v1/dispatch/f2f", object{"session_id": "s", "src_lang": "fr", "tgt_lang": "zh"}).expectError(wire.NoCapableNode)
	var s wire.Stats
	// The job and the refused request may be counted in two steps.
	for began := time.Now(); s.Jobs.LastDay.Total == 0 || len(s.Coverage.None) == 0; time.Sleep(50 * time.Millisecond) {
		if ts.waitForStats().decode(&s); time.Since(began) > 30*time.Second {
			t.Fatalf("the job or the refused request is not in the statistics: %+v", s)
		}
	}
	if s.Nodes.Ready != 1 || s.Nodes.Total != 1 || s.Jobs.Last5m.Outcomes["DONE"] != 1 || s.Instances.Present != 1 || !s.Store.Reachable {
		t.Errorf("the statistics: %+v", s)
	}
	if len(s.Languages.LastHour.Directions) != 1 || s.Languages.LastHour.Directions[0] != (wire.DirectionUse{SrcLang: "en", TgtLang: "zh", Jobs: 1}) {
		t.Errorf("language use: %+v", s.Languages.LastHour)
	}
	if len(s.Coverage.None) != 1 || s.Coverage.None[0].SrcLang != "fr" {
		t.Errorf("directions without a node: %+v", s.Coverage.None)
	}
	for _, line := range []string{"scheduler_stats_requests_total ", "scheduler_stats_stale_total ", "scheduler_stats_request_duration_seconds_count ", "lingua_stats_leader 1\n"} {
		if !strings.Contains(string(ts.get("/metrics").body), "\n"+line) {
			t.Errorf("/metrics has no %q", line)
		}
	}
}
