package server_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// scrape gets /metrics in the format that a scraper accepts.
func (ts *testScheduler) scrape(accept string) (contentType string, body []byte) {
	ts.t.Helper()
	req, err := http.NewRequestWithContext(ts.t.Context(), http.MethodGet, ts.url+"/metrics", nil)
	if err != nil {
		ts.t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		ts.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		ts.t.Fatalf("/metrics answered %d, %v", resp.StatusCode, err)
	}
	return resp.Header.Get("Content-Type"), body
}

// families decodes a scrape in the protobuf format.
func families(t *testing.T, body []byte) map[string]*dto.MetricFamily {
	t.Helper()
	all := make(map[string]*dto.MetricFamily)
	for dec := expfmt.NewDecoder(bytes.NewReader(body), expfmt.NewFormat(expfmt.TypeProtoDelim)); ; {
		f := new(dto.MetricFamily)
		if err := dec.Decode(f); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[f.GetName()] = f
	}
}

// TestMetricsFormats: a scraper gets the format that it asks for. Native histograms are only in the protobuf format, and exemplars also in
// OpenMetrics.
func TestMetricsFormats(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	ts.registerNode("n1", nil)
	ts.dispatchAndReceive(dispatchBody(nil))
	const histogram = "lingua_dispatch_duration_seconds"

	contentType, body := ts.scrape("text/plain;version=0.0.4")
	if text := string(body); !strings.HasPrefix(contentType, "text/plain; version=0.0.4") ||
		!strings.Contains(text, "\n# TYPE lingua_deliveries_total counter\n") || !strings.Contains(text, "\n"+histogram+"_bucket{outcome=\"accepted\",le=\"+Inf\"} 1\n") {
		t.Errorf("text: %s\n%s", contentType, text)
	}
	contentType, body = ts.scrape("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	if text := string(body); !strings.HasPrefix(contentType, "application/openmetrics-text; version=1.0.0") || !strings.HasSuffix(text, "\n# EOF\n") ||
		!strings.Contains(text, "\n# TYPE lingua_deliveries counter\n") {
		t.Errorf("OpenMetrics: %s\n%s", contentType, text)
	}
	contentType, body = ts.scrape("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	if !strings.HasPrefix(contentType, "application/vnd.google.protobuf") {
		t.Fatalf("protobuf: %s", contentType)
	}
	for _, one := range families(t, body)[histogram].GetMetric() {
		if one.GetLabel()[0].GetValue() != "accepted" {
			continue
		}
		if h := one.GetHistogram(); len(h.GetBucket()) == 0 || len(h.GetPositiveSpan()) == 0 || h.GetSampleCount() != 1 {
			t.Errorf("%s is not both classic and native: %v", histogram, h)
		}
	}
}
