package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

type metricsCmd struct{ apiClient }

// Run shows what the answering instance has counted.
func (c *metricsCmd) Run(ctx context.Context, io streams) error {
	return show(ctx, &c.apiClient, io, "GET", "/api/v1/metrics", nil, printMetrics)
}

func printMetrics(t *tabwriter.Writer, m *wire.Metrics) {
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	d, na, s := &m.Dispatch, &m.ModelNotAvailable, &m.Stats
	row("instance", "%s, for %s", m.Instance, (time.Duration(m.UptimeMS) * time.Millisecond).Round(time.Second))
	row("dispatches", "%s; %.1f/s in the last 10 s, %.1f/s in the last minute; p95 %.2f ms, p99 %.2f ms",
		describeOutcome(&d.MetricsOutcome), d.PerSecond10s, d.PerSecond1m, d.P95MS, d.P99MS)
	row("ModelHub down", "%s", describeOutcome(&d.ModelHubDown.MetricsOutcome))
	row("catalog", "%s", describeCatalog(&m.Catalog))
	row("utterances", "%d ended by clients, %d by the scheduler", m.Segmentation.Manual, m.Segmentation.Automatic)
	row("unavailable", "%d reports: %d marked, %d over the rate, %d dropped", na.Received, na.Marked, na.RateLimited, na.Dropped)
	row("  services", "%s", describeTop(na.ByServiceTop))
	row("  reasons", "%s", describeTop(na.ByReasonTop))
	row("  marked on", "%s", describeTop(na.MarkedTop))
	row("  limited", "%s", describeTop(na.LimitedTop))
	row("statistics", "%d requests, %d stale; p95 %.2f ms, p99 %.2f ms", s.Requests, s.Stale, s.P95MS, s.P99MS)
	row("slow paths", "%s", cmp.Or(describeCounts(nonzero(m.Slow.Paths)), "none"))
	row("slow locks", "%s", cmp.Or(describeCounts(nonzero(m.Slow.LockWaits)), "none"))
	_ = t.Flush() // the columns below are others; an error of the terminal is returned by the last flush

	fmt.Fprintln(t, "\nEXCLUDED\tNODES\tSUCH AS")
	excluded := m.DispatchExclude.ByReason
	for _, reason := range slices.SortedFunc(maps.Keys(excluded), func(a, b string) int {
		return cmp.Or(cmp.Compare(excluded[b].Count, excluded[a].Count), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(t, "%s\t%d\t%s\n", reason, excluded[reason].Count, printable(strings.Join(excluded[reason].Nodes, ", ")))
	}
}

// nonzero returns the counts that are not 0: every lock has one.
func nonzero(counts map[string]int64) map[string]int64 {
	counts = maps.Clone(counts)
	maps.DeleteFunc(counts, func(_ string, n int64) bool { return n == 0 })
	return counts
}

// describeOutcome says how many dispatches there were, and how many of them succeeded.
func describeOutcome(o *wire.MetricsOutcome) string {
	if o.Accepted+o.Refused == 0 {
		return "none"
	}
	return fmt.Sprintf("%d accepted, %d refused (%.1f %% succeed)", o.Accepted, o.Refused, 100*o.SuccessShare)
}

func describeCatalog(c *wire.MetricsCatalog) string {
	switch {
	case !c.Configured:
		return "no ModelHub"
	case c.FailCount > 0:
		return fmt.Sprintf("%d services; the last %d refreshes failed: %s", c.Services, c.FailCount, printable(c.LastError))
	}
	return fmt.Sprintf("%d services", c.Services)
}

// describeTop lists the most frequent names, not more than fit into a line.
func describeTop(list []wire.MetricsCount) string {
	const limit = 8
	if len(list) == 0 {
		return "none"
	}
	parts := make([]string, 0, limit)
	for _, c := range list[:min(len(list), limit)] {
		parts = append(parts, fmt.Sprintf("%s %d", printable(c.Name), c.Count))
	}
	if len(list) > limit {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", ")
}
