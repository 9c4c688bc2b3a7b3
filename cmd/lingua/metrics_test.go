package main

import (
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestMetricsCommand checks what the command shows of a scheduler that refused a dispatch.
func TestMetricsCommand(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.registerNode(t, "n1", 1)
	s.post(t, "/v1/dispatch/f2f", `{"session_id":"talk","src_lang":"en","tgt_lang":"zh","request_id":%q}`, "r1")
	got := runCommand(t, "explain", "--from", "en", "--to", "zh", "--server", s.url) // it is full, and an explanation counts nothing
	if got.code != exitOK {
		t.Fatal(got)
	}
	got = runCommand(t, "metrics", "--server", s.url)
	lines := rows(got.out)
	for _, want := range []string{"ModelHub down none", "catalog no ModelHub", "utterances 0 ended by clients, 0 by the scheduler", "EXCLUDED NODES SUCH AS"} {
		if !slices.Contains(lines, want) {
			t.Errorf("there is no line %q: %q", want, lines)
		}
	}
	if !slices.ContainsFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "dispatches 1 accepted, 0 refused (100.0 % succeed); ")
	}) {
		t.Errorf("the dispatch is not counted: %q", lines)
	}
}

// TestPrintMetrics checks the text of all fields. Names that nodes choose are escaped: a terminal would execute them.
func TestPrintMetrics(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	printMetrics(w, &wire.Metrics{
		Instance: "i-1", UptimeMS: 90_000,
		Dispatch: wire.MetricsDispatch{
			MetricsOutcome: wire.MetricsOutcome{Accepted: 3, Refused: 1, SuccessShare: 0.75}, PerSecond10s: 1.25, PerSecond1m: 0.5, P95MS: 1, P99MS: 2,
			ModelHubDown: wire.MetricsHubDown{Now: true, MetricsOutcome: wire.MetricsOutcome{Accepted: 1, SuccessShare: 1}},
		},
		Catalog:         wire.MetricsCatalog{Configured: true, Services: 7, FailCount: 2, LastError: "the ModelHub answered 503"},
		Segmentation:    wire.MetricsSegmentation{Manual: 4, Automatic: 5},
		DispatchExclude: wire.MetricsDispatchExclude{ByReason: map[string]wire.MetricsExclusion{"FULL": {Count: 2, Nodes: []string{"n1", "n2"}}, "DRAINED": {Count: 9, Nodes: []string{"n3"}}}},
		ModelNotAvailable: wire.MetricsModelNA{
			Received: 12, Marked: 3, RateLimited: 4, Dropped: 5, ByServiceTop: []wire.MetricsCount{{Name: "bad\x1b[31m", Count: 9}, {Name: "other", Count: 3}},
		},
		Stats: wire.MetricsStats{Requests: 10, Stale: 1, P95MS: 0.5, P99MS: 0.75},
		Slow:  wire.MetricsSlow{Paths: map[string]int64{"/v1/nodes": 2, "session_result": 0}, LockWaits: map[string]int64{"session": 0}},
	})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"instance i-1, for 1m30s", "dispatches 3 accepted, 1 refused (75.0 % succeed); 1.2/s in the last 10 s, 0.5/s in the last minute; p95 1.00 ms, p99 2.00 ms",
		"ModelHub down 1 accepted, 0 refused (100.0 % succeed)", "catalog 7 services; the last 2 refreshes failed: the ModelHub answered 503",
		"utterances 4 ended by clients, 5 by the scheduler", "unavailable 12 reports: 3 marked, 4 over the rate, 5 dropped", `services bad\x1b[31m 9, other 3`,
		"reasons none", "marked on none", "limited none", "statistics 10 requests, 1 stale; p95 0.50 ms, p99 0.75 ms", "slow paths /v1/nodes 2", "slow locks none",
		"", "EXCLUDED NODES SUCH AS", "DRAINED 9 n3", "FULL 2 n1, n2",
	}
	if diff := cmp.Diff(want, rows(out.String())); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}
