package server

import (
	"cmp"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/health"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/compat"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// maxTop is the length of the lists of most frequent names.
const maxTop = 20

// metricsHandlers answer with what this instance has counted. They read counters and copies in memory: never the store, and nothing that
// grows with the fleet.
type metricsHandlers struct {
	responder
	bus     *bus.Bus
	started time.Time
	metrics *telemetry.Metrics
	catalog *health.Catalog
	stats   StatsReader
	queued  func() int // reports of unavailable services that are queued
}

func (h *metricsHandlers) routes() []route {
	return []route{{
		method: "GET", path: "/api/v1/metrics", rule: fleetReaders, tag: "operations",
		summary: "Show what the answering instance has counted, by reason",
		description: "For people who look for the cause of a problem; /metrics has more, for Prometheus. Everything is of the answering " +
			"instance and since it started.",
		handler: handle(h.responder, h.show), out: reflect.TypeFor[wire.Metrics](),
	}}
}

func (h *metricsHandlers) show(*http.Request) (any, error) {
	return compat.MetricsOf(&wire.Metrics{
		Instance: string(h.bus.Instance()), UptimeMS: time.Since(h.started).Milliseconds(),
		Stats: h.statsRequests(), Dispatch: h.dispatches(), DispatchExclude: h.exclusions(), ModelNotAvailable: h.modelNA(),
		Catalog: h.catalogState(), Segmentation: h.segmentation(),
		Slow: wire.MetricsSlow{
			LockWaits: h.counts("scheduler_slow_lock_wait_total", "lock"), Paths: h.counts("scheduler_slow_path_total", "path"),
		},
		LockWait: h.lockWait(),
	}), nil
}

// count returns the value of a counter.
func (h *metricsHandlers) count(name string) int64 { return int64(h.metrics.Value(name)) }

// counts returns the values of a counter by a label.
func (h *metricsHandlers) counts(name, label string) map[string]int64 {
	all := make(map[string]int64)
	for value, n := range h.metrics.Values(name, label) {
		all[value] = int64(n)
	}
	return all
}

// top returns the most frequent values of a label.
func (h *metricsHandlers) top(name, label string) []wire.MetricsCount {
	list := make([]wire.MetricsCount, 0, maxTop)
	for value, n := range h.counts(name, label) {
		if n > 0 {
			list = append(list, wire.MetricsCount{Name: value, Count: n})
		}
	}
	slices.SortFunc(list, func(a, b wire.MetricsCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), maxTop)]
}

func milliseconds(seconds float64) float64 { return seconds * 1000 }

func (h *metricsHandlers) statsRequests() wire.MetricsStats {
	s := wire.MetricsStats{Requests: h.count("scheduler_stats_requests_total"), Stale: h.count("scheduler_stats_stale_total")}
	if s.Requests > 0 {
		s.StaleShare = float64(s.Stale) / float64(s.Requests)
	}
	took := h.metrics.Histograms("scheduler_stats_request_duration_seconds", "")[""]
	s.P95MS, s.P99MS = milliseconds(took.Quantile(0.95)), milliseconds(took.Quantile(0.99))
	generated, age := h.stats.Snapshot()
	s.SnapshotMS, s.SnapshotAgeMS = generated, age.Milliseconds()
	return s
}

func (h *metricsHandlers) dispatches() wire.MetricsDispatch {
	took := h.metrics.Histograms("lingua_dispatch_duration_seconds", "outcome")
	accepted, whileDown := took["accepted"], h.counts("lingua_dispatches_model_hub_down_total", "outcome")
	return wire.MetricsDispatch{
		MetricsOutcome: outcome(int64(accepted.GetSampleCount()), int64(took["refused"].GetSampleCount())),
		PerSecond10s:   h.metrics.DispatchRate.PerSecond(10), PerSecond1m: h.metrics.DispatchRate.PerSecond(60),
		P95MS: milliseconds(accepted.Quantile(0.95)), P99MS: milliseconds(accepted.Quantile(0.99)),
		ModelHubDown: wire.MetricsHubDown{Now: h.metrics.ModelHubDown(),
			MetricsOutcome: outcome(whileDown["accepted"], whileDown["refused"])},
	}
}

func outcome(accepted, refused int64) wire.MetricsOutcome {
	o := wire.MetricsOutcome{Accepted: accepted, Refused: refused, SuccessShare: 1}
	if all := accepted + refused; all > 0 {
		o.SuccessShare = float64(accepted) / float64(all)
	}
	return o
}

func (h *metricsHandlers) exclusions() wire.MetricsDispatchExclude {
	examples, all := h.metrics.Exclusions.All(), make(map[string]wire.MetricsExclusion)
	for reason, n := range h.counts("lingua_candidates_rejected_total", "reason") {
		x := wire.MetricsExclusion{Count: n, Nodes: examples[reason].Nodes}
		if x.Nodes == nil {
			x.Nodes = []string{}
		} else {
			x.LastMS = examples[reason].At.UnixMilli()
		}
		all[reason] = x
	}
	return wire.MetricsDispatchExclude{ByReason: all}
}

func (h *metricsHandlers) modelNA() wire.MetricsModelNA {
	return wire.MetricsModelNA{
		Received: h.count("scheduler_model_na_received_total"), RateLimited: h.count("scheduler_model_na_rate_limited_by_node_total"),
		Dropped: h.count("scheduler_model_na_dropped_total"), DroppedBy: h.counts("scheduler_model_na_dropped_total", "cause"),
		Marked: h.count("scheduler_model_na_marked_by_node_total"), Queued: int64(h.queued()),
		ByServiceTop: h.top("scheduler_model_na_by_service_total", "service_id"),
		ByReasonTop:  h.top("scheduler_model_na_by_reason_total", "reason"),
		LimitedTop:   h.top("scheduler_model_na_rate_limited_by_node_total", "node_id"),
		MarkedTop:    h.top("scheduler_model_na_marked_by_node_total", "node_id"),
	}
}

func (h *metricsHandlers) catalogState() wire.MetricsCatalog {
	s := h.catalog.State()
	return wire.MetricsCatalog{
		Configured: s.Configured, Services: s.Services, FailCount: s.FailCount, LastError: s.LastError,
		LastSuccessMS: unixMS(s.LastSuccessAt), FetchedMS: unixMS(s.FetchedAt),
	}
}

// unixMS returns a time in Unix milliseconds, 0 for no time.
func unixMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func (h *metricsHandlers) segmentation() wire.MetricsSegmentation {
	s := wire.MetricsSegmentation{ByReason: h.counts("lingua_utterances_total", "reason")}
	s.Manual = s.ByReason["manual"] + s.ByReason["end"]
	for n := range maps.Values(s.ByReason) {
		s.Automatic += n
	}
	s.Automatic -= s.Manual
	return s
}

func (h *metricsHandlers) lockWait() map[string]wire.MetricsWait {
	all := make(map[string]wire.MetricsWait)
	for lock, waits := range h.metrics.Histograms("lingua_lock_wait_seconds", "lock") {
		all[lock] = wire.MetricsWait{
			Count: int64(waits.GetSampleCount()), TotalMS: milliseconds(waits.GetSampleSum()),
			P95MS: milliseconds(waits.Quantile(0.95)), P99MS: milliseconds(waits.Quantile(0.99)),
		}
	}
	return all
}
