package server

import (
	"cmp"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/compat"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// maxTop is the length of the lists of most frequent names.
const maxTop = 20

func (h *statsHandlers) metricsRoute() route {
	return route{
		method: "GET", path: "/api/v1/metrics", rule: fleetReaders, tag: "operations",
		summary: "Show what the answering instance has counted, by reason",
		description: "For people who look for the cause of a problem; /metrics has more, for Prometheus. Everything is of the answering " +
			"instance and since it started.",
		handler: handler{serve: handle(h.responder, h.showMetrics).serve, out: reflect.TypeFor[wire.Metrics]()},
	}
}

// showMetrics answers with what this instance has counted. It reads counters and copies in memory: never the store, and nothing that grows
// with the fleet.
func (h *statsHandlers) showMetrics(*http.Request) (*compat.Metrics, error) {
	return compat.MetricsOf(&wire.Metrics{
		Instance: string(h.bus.Instance()), UptimeMS: time.Since(h.started).Milliseconds(),
		Stats: h.statsRequests(), Dispatch: h.dispatches(), DispatchExclude: h.exclusions(), ModelNotAvailable: h.modelNA(),
		Catalog: h.catalogState(), Segmentation: h.segmentation(),
		Slow: wire.MetricsSlow{
			LockWaits: h.metrics.SlowLockWait.All(), Paths: h.metrics.SlowPath.All(),
		},
		LockWait: h.lockWait(),
	}), nil
}

// top returns the most frequent values of a label.
func top(counts *telemetry.Counts) []wire.MetricsCount {
	list := make([]wire.MetricsCount, 0, maxTop)
	for value, n := range counts.All() {
		if n > 0 {
			list = append(list, wire.MetricsCount{Name: value, Count: n})
		}
	}
	slices.SortFunc(list, func(a, b wire.MetricsCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), maxTop)]
}

func (h *statsHandlers) statsRequests() wire.MetricsStats {
	s := wire.MetricsStats{Requests: h.metrics.StatsRequests.Load(), Stale: h.metrics.StatsStale.Load()}
	if s.Requests > 0 {
		s.StaleShare = float64(s.Stale) / float64(s.Requests)
	}
	took := h.metrics.StatsDuration.Read()
	s.P95MS, s.P99MS = took.QuantileMS(0.95), took.QuantileMS(0.99)
	generated, age := h.stats.Snapshot()
	s.SnapshotMS, s.SnapshotAgeMS = generated, age.Milliseconds()
	return s
}

func (h *statsHandlers) dispatches() wire.MetricsDispatch {
	accepted, whileDown := h.metrics.Accepted(), h.metrics.HubDownDispatches.All()
	return wire.MetricsDispatch{
		MetricsOutcome: outcome(accepted.Count(), h.metrics.Refused()),
		PerSecond10s:   h.metrics.DispatchRate.PerSecond(10), PerSecond1m: h.metrics.DispatchRate.PerSecond(60),
		P95MS: accepted.QuantileMS(0.95), P99MS: accepted.QuantileMS(0.99),
		ModelHubDown: wire.MetricsHubDown{Now: h.metrics.ModelHubDown(),
			MetricsOutcome: outcome(whileDown[telemetry.OutcomeAccepted], whileDown[telemetry.OutcomeRefused])},
	}
}

func outcome(accepted, refused int64) wire.MetricsOutcome {
	o := wire.MetricsOutcome{Accepted: accepted, Refused: refused, SuccessShare: 1}
	if all := accepted + refused; all > 0 {
		o.SuccessShare = float64(accepted) / float64(all)
	}
	return o
}

func (h *statsHandlers) exclusions() wire.MetricsDispatchExclude {
	examples, all := h.metrics.Exclusions.All(), make(map[string]wire.MetricsExclusion)
	for reason, n := range h.metrics.CandidatesRejected.All() {
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

func (h *statsHandlers) modelNA() wire.MetricsModelNA {
	m := &h.metrics.ModelNA
	return wire.MetricsModelNA{
		Received: m.NAReceived.Load(), RateLimited: m.NARateLimited.Sum(), Dropped: m.NADropped.Sum(), DroppedBy: m.NADropped.All(),
		Marked: m.NAMarked.Sum(), Queued: int64(h.queued()),
		ByServiceTop: top(m.NAByService), ByReasonTop: top(m.NAByReason), LimitedTop: top(m.NARateLimited), MarkedTop: top(m.NAMarked),
	}
}

func (h *statsHandlers) catalogState() wire.MetricsCatalog {
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

func (h *statsHandlers) segmentation() wire.MetricsSegmentation {
	s := wire.MetricsSegmentation{ByReason: h.metrics.Utterances.All()}
	s.Manual = s.ByReason["manual"] + s.ByReason["end"]
	for n := range maps.Values(s.ByReason) {
		s.Automatic += n
	}
	s.Automatic -= s.Manual
	return s
}

func (h *statsHandlers) lockWait() map[string]wire.MetricsWait {
	all := make(map[string]wire.MetricsWait)
	for lock, waits := range h.metrics.LockWait.All() {
		all[lock] = wire.MetricsWait{
			Count: waits.Count(), TotalMS: 1000 * waits.Sum.Seconds(), P95MS: waits.QuantileMS(0.95), P99MS: waits.QuantileMS(0.99),
		}
	}
	return all
}
