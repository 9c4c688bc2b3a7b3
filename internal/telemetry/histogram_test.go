package telemetry

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	dto "github.com/prometheus/client_model/go"
)

// TestEveryHistogramIsClassicAndNative checks that a scrape in the protobuf format has both kinds of every histogram.
func TestEveryHistogramIsClassicAndNative(t *testing.T) {
	t.Parallel()
	m := New()
	m.ObserveDispatch(time.Millisecond, false, "")
	m.ObserveStats(time.Millisecond, false)
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range families {
		if f.GetType() != dto.MetricType_HISTOGRAM || strings.HasPrefix(f.GetName(), "go_") {
			continue
		}
		found++
		for _, one := range f.GetMetric() {
			h := one.GetHistogram()
			if len(h.GetBucket()) == 0 {
				t.Errorf("%s has no classic buckets", f.GetName())
			}
			if h.GetSchema() != 3 || h.ZeroThreshold == nil { // 2^(1/8) is the widest factor below nativeBucketFactor
				t.Errorf("%s is no native histogram of factor %v: schema %d", f.GetName(), nativeBucketFactor, h.GetSchema())
			}
		}
	}
	if found < 4 {
		t.Errorf("only %d histograms were found", found)
	}
}

// TestNativeHistogramIsBounded observes values of very different sizes: the buckets stay bounded and nothing is lost.
func TestNativeHistogramIsBounded(t *testing.T) {
	t.Parallel()
	h := factory{prometheus.NewRegistry()}.histogram("x_seconds", "A histogram.", []float64{1})
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	const observations = 100_000
	for range observations {
		h.Observe(r.ExpFloat64() * []float64{1e-9, 1e-6, 1e-3, 1, 1e3, 1e6, 1e9}[r.IntN(7)])
	}
	var got dto.Metric
	if err := h.Write(&got); err != nil {
		t.Fatal(err)
	}
	if n := len(got.GetHistogram().GetPositiveDelta()); n > nativeMaxBuckets {
		t.Errorf("%d native buckets, want at most %d", n, nativeMaxBuckets)
	}
	if n := got.GetHistogram().GetSampleCount(); n != observations {
		t.Errorf("%d observations are counted, want %d", n, observations)
	}
}

// TestClassicTextIsUnchanged checks that a scraper of the text format gets classic histograms only, as before there were native ones.
func TestClassicTextIsUnchanged(t *testing.T) {
	t.Parallel()
	text := func(o prometheus.HistogramOpts) string {
		reg := prometheus.NewRegistry()
		h := prometheus.NewHistogram(o)
		reg.MustRegister(h)
		h.Observe(0.3)
		h.Observe(30)
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
		return w.Body.String()
	}
	want := text(prometheus.HistogramOpts{Name: "x_seconds", Help: "A histogram.", Buckets: []float64{0.1, 1}})
	if diff := cmp.Diff(want, text(histogramOpts("x_seconds", "A histogram.", []float64{0.1, 1}))); diff != "" {
		t.Errorf("the text (-classic +ours):\n%s", diff)
	}
}

// TestOpenMetricsFamiliesAreUnique checks that no two families have the same name in the OpenMetrics format, which drops the _total of
// counters.
func TestOpenMetricsFamiliesAreUnique(t *testing.T) {
	t.Parallel()
	m := New()
	m.RegisterGauge("lingua_sessions", "As the scheduler registers it.", func() float64 { return 1 })
	m.Events.WithLabelValues("x").Inc()
	m.Takeovers.WithLabelValues("x").Inc()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]string)
	for _, f := range families {
		name := f.GetName()
		if strings.HasPrefix(name, "go_") {
			continue // go_memstats_alloc_bytes has been both since long before OpenMetrics
		}
		if f.GetType() == dto.MetricType_COUNTER {
			name = strings.TrimSuffix(name, "_total")
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%s and %s are one family in OpenMetrics", other, f.GetName())
		}
		seen[name] = f.GetName()
		var b strings.Builder
		if _, err := expfmt.MetricFamilyToOpenMetrics(&b, f); err != nil {
			t.Errorf("%s: %v", f.GetName(), err)
		}
	}
}

// BenchmarkObserve compares the histograms of this package with classic ones.
func BenchmarkObserve(b *testing.B) {
	buckets := prometheus.ExponentialBuckets(50e-6, 2, 18)
	for name, o := range map[string]prometheus.HistogramOpts{
		"classic": {Name: "x_seconds", Help: "A histogram.", Buckets: buckets},
		"both":    histogramOpts("x_seconds", "A histogram.", buckets),
	} {
		b.Run(name, func(b *testing.B) {
			h := prometheus.NewHistogram(o)
			r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a benchmark
			values := make([]float64, 1024)
			for i := range values {
				values[i] = r.ExpFloat64() / 1000
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h.Observe(values[i%len(values)])
			}
		})
	}
}
