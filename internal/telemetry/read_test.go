package telemetry

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// TestReadByName checks that metrics are read by name, that others have no value, and that metrics which are computed at a scrape are not.
func TestReadByName(t *testing.T) {
	t.Parallel()
	m := New()
	m.RegisterGauge("lingua_expensive", "It is computed at a scrape.", func() float64 {
		t.Error("it was computed")
		return 0
	})
	m.StatsRequests.Add(3)
	m.NAByService.Inc("a")
	m.NAByService.Inc("b")
	m.NAByService.Inc("b")
	m.Fenced.WithLabelValues("done", "x").Inc()
	m.Fenced.WithLabelValues("done", "y").Inc()
	if got := m.Value("scheduler_stats_requests_total"); got != 3 {
		t.Errorf("%v requests, want 3", got)
	}
	if diff := cmp.Diff(map[string]float64{"a": 1, "b": 2}, m.Values("scheduler_model_na_by_service_total", "service_id")); diff != "" {
		t.Errorf("by service (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"done": 2}, m.Values("lingua_fenced_total", "message")); diff != "" {
		t.Errorf("by message (-want +got):\n%s", diff)
	}
	for _, name := range []string{"lingua_expensive", "lingua_lock_wait", "", "go_goroutines"} {
		if got := m.Value(name); got != 0 {
			t.Errorf("%q has the value %v", name, got)
		}
		if got := m.Histograms(name, "x"); len(got) != 0 {
			t.Errorf("%q has the histograms %v", name, got)
		}
	}
}

// TestReadOfLaterRegistered checks that a metric which another file of this package registers through a factory is found.
func TestReadOfLaterRegistered(t *testing.T) {
	t.Parallel()
	m := New()
	h := factory{m.index}.histogramVec("lingua_x_seconds", "A histogram.", []float64{1, 2}, "lock")
	h.WithLabelValues("a").Observe(0.5)
	if got := m.Histograms("lingua_x_seconds", "lock"); got["a"].GetSampleCount() != 1 {
		t.Errorf("got %v", got)
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	m := New()
	vec := factory{m.index}.histogramVec("x_seconds", "A histogram.", []float64{1, 2, 4}, "case")
	for range 90 {
		vec.WithLabelValues("two buckets").Observe(0.5)
	}
	for range 10 {
		vec.WithLabelValues("two buckets").Observe(3)
	}
	vec.WithLabelValues("beyond").Observe(100)
	vec.WithLabelValues("none")
	for name, want := range map[string][3]float64{ // p50, p95, p99
		"two buckets": {0.5 / 0.9, 3, 3.8}, "beyond": {4, 4, 4}, "none": {},
	} {
		h := m.Histograms("x_seconds", "case")[name]
		for i, q := range []float64{0.5, 0.95, 0.99} {
			if got := h.Quantile(q); math.Abs(got-want[i]) > 1e-9 {
				t.Errorf("%s: the quantile %v is %v, want %v", name, q, got, want[i])
			}
		}
	}
	if got := (Histogram{}).Quantile(0.5); got != 0 {
		t.Errorf("without a histogram: %v", got)
	}
}

// TestRate samples a counter that grows by one every 100 ms for 30 s, and then no more.
func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := NewRate(func() int64 { return int64(min(time.Since(began), 30*time.Second) / (100 * time.Millisecond)) })
		go r.Run(t.Context())
		for _, c := range []struct {
			after    time.Duration
			ten, min float64
		}{{0, 0, 0}, {5 * time.Second, 10, 10}, {30 * time.Second, 10, 10}, {35 * time.Second, 5, 300.0 / 35}, {60 * time.Second, 0, 5}, {3 * time.Minute, 0, 0}} {
			time.Sleep(time.Until(began.Add(c.after)))
			synctest.Wait()
			if ten, minute := r.PerSecond(10), r.PerSecond(60); math.Abs(ten-c.ten) > 1e-9 || math.Abs(minute-c.min) > 1e-9 {
				t.Errorf("after %v: %v and %v per second, want %v and %v", c.after, ten, minute, c.ten, c.min)
			}
		}
	})
}

func TestExclusions(t *testing.T) {
	t.Parallel()
	var e Exclusions
	now := time.Unix(1000, 0)
	if !e.Due(now) || e.Due(now.Add(examplesInterval-1)) || !e.Due(now.Add(examplesInterval)) {
		t.Error("it is not due once in an interval")
	}
	if back := now.Add(-time.Hour); !e.Due(back) || e.Due(back.Add(1)) { // the clock was set back
		t.Error("it is not due once after the clock was set back")
	}
	for _, node := range []string{"a", "b", "c", "d", "e", "f", "d"} {
		e.Add("FULL", node, now)
	}
	e.Add("DRAINED", "a", now.Add(time.Second))
	want := map[string]Examples{"FULL": {[]string{"d", "f", "e", "c", "b"}, now}, "DRAINED": {[]string{"a"}, now.Add(time.Second)}}
	if diff := cmp.Diff(want, e.All()); diff != "" {
		t.Errorf("examples (-want +got):\n%s", diff)
	}
}

// TestDispatchesWhileModelHubIsDown checks that dispatches are counted by the state of the ModelHub.
func TestDispatchesWhileModelHubIsDown(t *testing.T) {
	t.Parallel()
	m := New()
	observe := func(accepted, refused int) {
		for range accepted {
			m.ObserveDispatch(time.Millisecond, false, "")
		}
		for range refused {
			m.ObserveDispatch(time.Millisecond, true, "")
		}
	}
	observe(2, 1)
	m.SetModelHubDown(true)
	observe(5, 3)
	m.SetModelHubDown(false)
	observe(1, 1)
	if diff := cmp.Diff(map[string]float64{"accepted": 5, "refused": 3}, m.Values("lingua_dispatches_model_hub_down_total", "outcome")); diff != "" {
		t.Errorf("while it is down (-want +got):\n%s", diff)
	}
	if got := m.decided.Load(); got != 13 {
		t.Errorf("%d dispatches are counted, want 13", got)
	}
}

// BenchmarkObserveDispatch is what every dispatch pays for its metrics.
func BenchmarkObserveDispatch(b *testing.B) {
	m := New()
	b.ReportAllocs()
	for b.Loop() {
		m.ObserveDispatch(time.Millisecond, false, "")
	}
}

var _ prometheus.Registerer = (*index)(nil)
