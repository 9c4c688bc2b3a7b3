package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// BenchmarkMetricsJSON is one GET /api/v1/metrics with all labels full. It does not depend on the number of nodes.
func BenchmarkMetricsJSON(b *testing.B) {
	ts := startScheduler(b)
	m := ts.scheduler.Metrics
	for i := range 200 {
		name := fmt.Sprintf("name-%d", i)
		m.NAByService.WithLabelValues(name).Inc()
		m.NAMarked.WithLabelValues(name).Inc()
		m.NARateLimited.WithLabelValues(name).Inc()
	}
	for _, reason := range []core.Reason{core.ReasonFull, core.ReasonDrained, core.ReasonEjected} {
		m.CandidatesRejected.WithLabelValues(string(reason)).Inc()
	}
	b.ReportAllocs()
	for b.Loop() {
		rec := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "http://localhost/api/v1/metrics", nil)
		if ts.scheduler.Server.Handler().ServeHTTP(rec, req); rec.Code != http.StatusOK {
			b.Fatal(rec.Code, rec.Body)
		}
	}
}
