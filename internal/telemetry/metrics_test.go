package telemetry

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// metric is the part of a metric that dashboards rely on.
type metric struct {
	Name   string
	Kind   string
	Labels []string
}

// exported lists the metrics that other packages use, by field.
var exported = map[string]metric{
	"NodeRegistration":   {"node_registration_total", "COUNTER", []string{"status"}},
	"HeartbeatLatency":   {"node_heartbeat_latency_ms", "HISTOGRAM", nil},
	"PoolQuery":          {"pool_query_total", "COUNTER", []string{"success"}},
	"NodeSelection":      {"node_selection_total", "COUNTER", []string{"result"}},
	"NoAvailableNode":    {"scheduler_no_available_node_total", "COUNTER", []string{"reason", "selector"}},
	"LockWait":           {"lingua_lock_wait_seconds", "HISTOGRAM", []string{"lock"}},
	"SlowLockWait":       {"scheduler_slow_lock_wait_total", "COUNTER", []string{"lock"}},
	"HubDownDispatches":  {"lingua_dispatches_model_hub_down_total", "COUNTER", []string{"outcome"}},
	"SlowPath":           {"scheduler_slow_path_total", "COUNTER", []string{"path"}},
	"Probes":             {"lingua_node_probes_total", "COUNTER", []string{"result"}},
	"TenantRefusals":     {"lingua_tenant_refusals_total", "COUNTER", []string{"limit"}},
	"Refusals":           {"lingua_refusals_total", "COUNTER", []string{"reason"}},
	"ACKTimeouts":        {"lingua_ack_timeouts_total", "COUNTER", nil},
	"NodeBusy":           {"lingua_node_busy_total", "COUNTER", nil},
	"Retries":            {"lingua_retries_total", "COUNTER", []string{"reason"}},
	"MoveDelay":          {"lingua_move_delay_seconds", "HISTOGRAM", nil},
	"Jobs":               {"lingua_jobs_total", "COUNTER", []string{"state"}},
	"JobDuration":        {"lingua_job_duration_seconds", "HISTOGRAM", []string{"state"}},
	"Fenced":             {"lingua_fenced_total", "COUNTER", []string{"cause", "message"}},
	"Deliveries":         {"lingua_deliveries_total", "COUNTER", []string{"result"}},
	"Admissions":         {"lingua_node_admissions_total", "COUNTER", []string{"decision", "reason"}},
	"StatsRequests":      {"scheduler_stats_requests_total", "COUNTER", nil},
	"StatsStale":         {"scheduler_stats_stale_total", "COUNTER", nil},
	"StatsDuration":      {"scheduler_stats_request_duration_seconds", "HISTOGRAM", nil},
	"StatsLeader":        {"lingua_stats_leader", "GAUGE", nil},
	"SilentHeard":        {"lingua_silent_nodes_heard_total", "COUNTER", nil},
	"Orphans":            {"lingua_reconciled_leases_total", "COUNTER", []string{"kind"}},
	"CandidatesRejected": {"lingua_candidates_rejected_total", "COUNTER", []string{"reason"}},
	"NAReceived":         {"scheduler_model_na_received_total", "COUNTER", nil},
	"NAByService":        {"scheduler_model_na_by_service_total", "COUNTER", []string{"service_id"}},
	"NAByReason":         {"scheduler_model_na_by_reason_total", "COUNTER", []string{"reason"}},
	"NARateLimited":      {"scheduler_model_na_rate_limited_by_node_total", "COUNTER", []string{"node_id"}},
	"NAMarked":           {"scheduler_model_na_marked_by_node_total", "COUNTER", []string{"node_id"}},
	"NADropped":          {"scheduler_model_na_dropped_total", "COUNTER", []string{"cause"}},
	"CatalogRefreshes":   {"lingua_catalog_refreshes_total", "COUNTER", []string{"kind", "result"}},
	"StoreLost":          {"lingua_store_lost_total", "COUNTER", []string{"kind"}},
	"EventsDropped":      {"lingua_events_dropped_total", "COUNTER", nil},
	"StoreUp":            {"lingua_store_up", "GAUGE", nil},
	"Closes":             {"lingua_socket_closes_total", "COUNTER", []string{"code", "side"}},
	"Denied":             {"lingua_denied_total", "COUNTER", []string{"reason", "status"}},
	"AuditDropped":       {"lingua_audit_dropped_total", "COUNTER", []string{"log"}},
	"Events":             {"lingua_session_events_total", "COUNTER", []string{"event"}},
	"Utterances":         {"lingua_utterances_total", "COUNTER", []string{"reason"}},
	"PauseProbes":        {Name: "lingua_pause_probes_total", Kind: "COUNTER"},
	"Successions":        {"lingua_session_successions_total", "COUNTER", []string{"same_node"}},
	"Messages":           {"lingua_session_messages_total", "COUNTER", []string{"kind"}},
	"MessagesSent":       {"lingua_messages_sent_total", "COUNTER", []string{"kind", "result"}},
	"MessagesHandled":    {"lingua_messages_handled_total", "COUNTER", []string{"kind", "result"}},
	"Takeovers":          {"lingua_takeovers_total", "COUNTER", []string{"kind"}},
	"Instances":          {"lingua_instances", "GAUGE", nil},
	"InboxMessages":      {"lingua_inbox_messages", "GAUGE", nil},
	"InboxPending":       {"lingua_inbox_pending", "GAUGE", nil},
	"DeadLetters":        {"lingua_dead_letters", "GAUGE", nil},
	"InboxLag":           {"lingua_inbox_lag_seconds", "HISTOGRAM", nil},
	"Reclaimed":          {"lingua_messages_reclaimed_total", "COUNTER", []string{"from"}},
	"SpansExported":      {Name: "lingua_spans_exported_total", Kind: "COUNTER"},
	"SpansDropped":       {"lingua_spans_dropped_total", "COUNTER", []string{"reason"}},
	"StoreErrors":        {"lingua_store_errors_total", "COUNTER", []string{"operation"}},
}

// methods lists the metrics that are used through a method.
var methods = []metric{
	{"lingua_dispatch_duration_seconds", "HISTOGRAM", []string{"outcome"}},
	{"lingua_lag_seconds", "HISTOGRAM", []string{"part"}},
	{"lingua_redis_errors_total", "COUNTER", []string{"class"}},
	{"lingua_reserve_total", "COUNTER", []string{"verdict"}},
	{"phase3_pool_selected_total", "COUNTER", []string{"fallback", "outcome", "pool"}},
	{"phase3_pool_attempt_total", "COUNTER", []string{"pool", "reason", "result"}},
	{"lingua_utterance_duration_seconds", "HISTOGRAM", []string{"outcome"}},
	{"lingua_wait_requests_total", "COUNTER", []string{"verdict"}},
	{"lingua_wait_offers_total", "COUNTER", []string{"result"}},
	{"lingua_wait_sweeps_total", "COUNTER", []string{"kind"}},
	{"lingua_wait_duration_seconds", "HISTOGRAM", []string{"outcome"}},
}

// countOnce counts once in the metric of a field, with the labels that it should have.
func countOnce(t *testing.T, field any, want metric) {
	t.Helper()
	labels := prometheus.Labels{}
	for _, l := range want.Labels {
		labels[l] = "x"
	}
	var err error
	switch m := field.(type) {
	case *prometheus.CounterVec:
		var c prometheus.Counter
		if c, err = m.GetMetricWith(labels); err == nil {
			c.Inc()
		}
	case *Counts:
		m.WithLabelValues("x").Inc()
	case *Count:
		m.Inc()
	case *Timings:
		m.WithLabelValues("x").Observe(1)
	case *Timing:
		m.Observe(1)
	case *prometheus.HistogramVec:
		var o prometheus.Observer
		if o, err = m.GetMetricWith(labels); err == nil {
			o.Observe(1)
		}
	case prometheus.Histogram:
		m.Observe(1)
	case prometheus.Counter:
		m.Inc()
	default:
		t.Fatalf("%s: cannot count in a %T", want.Name, field)
	}
	if err != nil {
		t.Errorf("%s: %v", want.Name, err)
	}
}

// gather returns every metric, and every series as "name{label=value,…}".
func gather(t *testing.T, g prometheus.Gatherer) (families map[string]metric, series map[string]float64) {
	t.Helper()
	got, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families, series = make(map[string]metric), make(map[string]float64)
	for _, f := range got {
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", f.GetName())
		}
		one := metric{Name: f.GetName(), Kind: f.GetType().String()}
		for _, m := range f.GetMetric() {
			one.Labels = nil
			var parts []string
			for _, l := range m.GetLabel() {
				one.Labels = append(one.Labels, l.GetName())
				parts = append(parts, l.GetName()+"="+l.GetValue())
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			series[f.GetName()+"{"+strings.Join(parts, ",")+"}"] = value
		}
		families[one.Name] = one
	}
	return families, series
}

// withoutRuntime drops the series of the process and the Go runtime.
func withoutRuntime[V any](all map[string]V) map[string]V {
	maps.DeleteFunc(all, func(name string, _ V) bool {
		return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_")
	})
	return all
}

func TestEveryMetricIsRegistered(t *testing.T) {
	t.Parallel()
	m := New()
	v := reflect.ValueOf(m).Elem()
	want := make(map[string]metric)
	for _, f := range reflect.VisibleFields(v.Type()) {
		if !f.IsExported() || f.Anonymous || slices.Contains([]string{"Registry", "Exclusions", "DispatchRate", "StoreCalls", "Pools", "Waiting"}, f.Name) {
			continue
		}
		e, known := exported[f.Name]
		if !known {
			t.Errorf("%s is not in the table of this test", f.Name)
			continue
		}
		countOnce(t, v.FieldByIndex(f.Index).Interface(), e)
		want[e.Name] = e
	}
	m.Pools.CountSelected("gold", FallbackNone)
	m.CountReserve(store.OK)
	m.CountRedisError(store.ErrorOther)
	m.ObserveDispatch(time.Millisecond, false, "")
	m.ObserveOutcome(time.Now(), true, "")
	for _, e := range methods {
		want[e.Name] = e
	}
	if len(want) != len(exported)+len(methods) {
		t.Errorf("%d metrics are in the table, %d in the struct", len(exported)+len(methods), len(want))
	}
	families, _ := gather(t, m.Registry)
	if diff := cmp.Diff(want, withoutRuntime(families)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// TestLabelsAreBounded checks that the values of every label are known, or capped: no session, job or tenant is one.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	bounded := []string{
		"cause", "class", "code", "decision", "event", "fallback", "from", "kind", "limit", "lock", "log", "message", "operation", "outcome", "part", "path", "pool", "reason", "result", "same_node", "selector", "side", "state", "status", "success", "verdict",
	}
	v := reflect.ValueOf(New()).Elem()
	capped := make(map[string]bool)
	for field, e := range exported {
		counts, _ := v.FieldByName(field).Interface().(*Counts)
		capped[e.Name] = counts != nil && counts.max > 0
	}
	for _, e := range append(slices.Collect(maps.Values(exported)), methods...) {
		for _, l := range e.Labels {
			if !slices.Contains(bounded, l) && !capped[e.Name] {
				t.Errorf("%s has the label %s: is the number of its values known?", e.Name, l)
			}
		}
	}
}

func TestMetricNamesFollowConventions(t *testing.T) {
	t.Parallel()
	for _, e := range append(slices.Collect(maps.Values(exported)), methods...) {
		if e.Kind == "COUNTER" && !strings.HasSuffix(e.Name, "_total") {
			t.Errorf("%s is a counter and does not end in _total", e.Name)
		}
		if e.Kind == "HISTOGRAM" && !strings.HasSuffix(e.Name, "_seconds") && !strings.HasSuffix(e.Name, "_ms") {
			t.Errorf("%s has no unit in its name", e.Name)
		}
	}
}

// TestCountReserve checks that every verdict has a series from the start, so that its rate begins at zero.
func TestCountReserve(t *testing.T) {
	t.Parallel()
	m := New()
	want := make(map[string]float64)
	for i, v := range store.Verdicts() {
		for range i {
			m.CountReserve(v)
		}
		want["lingua_reserve_total{verdict="+v.String()+"}"] = float64(i)
	}
	_, series := gather(t, m.Registry)
	if diff := cmp.Diff(want, withPrefix(series, "lingua_reserve_total")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// TestEveryVerdictHasACounter checks that every verdict, which is an index, has a counter.
func TestEveryVerdictHasACounter(t *testing.T) {
	t.Parallel()
	m := New()
	for i := range 256 {
		v := store.Verdict(i)
		if v.String() == "" {
			continue
		}
		if i >= len(m.reserve) || m.reserve[i] == nil {
			t.Errorf("%s has no counter", v)
		}
	}
}

func TestObserveDispatch(t *testing.T) {
	t.Parallel()
	m := New()
	m.ObserveDispatch(time.Millisecond, false, "")
	m.ObserveDispatch(time.Millisecond, false, "")
	m.ObserveDispatch(time.Millisecond, true, "")
	_, series := gather(t, m.Registry)
	want := map[string]float64{
		"lingua_dispatch_duration_seconds{outcome=accepted}": 2,
		"lingua_dispatch_duration_seconds{outcome=refused}":  1,
	}
	if diff := cmp.Diff(want, withPrefix(series, "lingua_dispatch_duration_seconds")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestObserveJobEnd(t *testing.T) {
	t.Parallel()
	m := New()
	want := make(map[string]float64)
	for s := range core.States() {
		if !s.Terminal() {
			continue
		}
		for range int(s) { // another number for each
			m.ObserveJobEnd(s, time.Second, "")
		}
		want[fmt.Sprintf("lingua_jobs_total{state=%s}", s)] = float64(s)
		want[fmt.Sprintf("lingua_job_duration_seconds{state=%s}", s)] = float64(s)
	}
	_, series := gather(t, m.Registry)
	if diff := cmp.Diff(want, withPrefix(series, "lingua_job")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// TestDurationsAreWithinTheBuckets checks the unit, and that a job at its default limit is within the buckets.
func TestDurationsAreWithinTheBuckets(t *testing.T) {
	t.Parallel()
	m := New()
	m.ObserveJobEnd(core.StateDone, 30*time.Second, "")
	m.ObserveDispatch(500*time.Millisecond, true, "")
	m.HeartbeatLatency.Observe(1000)
	got, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"lingua_job_duration_seconds": 30, "lingua_dispatch_duration_seconds": 0.5, "node_heartbeat_latency_ms": 1000}
	for _, f := range got {
		sum, known := want[f.GetName()]
		if !known {
			continue
		}
		for _, one := range f.GetMetric() {
			h := one.GetHistogram()
			if h.GetSampleCount() == 0 {
				continue
			}
			if h.GetSampleSum() != sum {
				t.Errorf("%s adds up to %v, want %v", f.GetName(), h.GetSampleSum(), sum)
			}
			if last := h.GetBucket()[len(h.GetBucket())-1]; last.GetCumulativeCount() == 0 {
				t.Errorf("%s: %v is beyond the last bucket, %v", f.GetName(), sum, last.GetUpperBound())
			}
		}
	}
}

// TestMetricsAreNotGlobal checks that two instances in one process have their own metrics.
func TestMetricsAreNotGlobal(t *testing.T) {
	t.Parallel()
	one, two := New(), New()
	one.ACKTimeouts.Inc()
	_, series := gather(t, two.Registry)
	if got := series["lingua_ack_timeouts_total{}"]; got != 0 {
		t.Errorf("the other one counts %v, want 0", got)
	}
}

// withPrefix keeps the series whose names begin with a prefix.
func withPrefix(series map[string]float64, prefix string) map[string]float64 {
	maps.DeleteFunc(series, func(name string, _ float64) bool { return !strings.HasPrefix(name, prefix) })
	return series
}
