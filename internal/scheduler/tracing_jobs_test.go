package scheduler_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/otlptest"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// callerSpan is the trace context of a caller.
const callerSpan = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// traceTo makes a scheduler send a fraction of its traces to a collector.
func traceTo(url string, ratio float64) func(*config.Config) {
	return func(c *config.Config) {
		c.Scheduler.Tracing.Endpoint, c.Scheduler.Tracing.SampleRatio = url, ratio
	}
}

// stopAtEnd stops the scheduler at the end of the test and waits for it.
func (r *testInstance) stopAtEnd() {
	r.t.Cleanup(func() {
		r.stop()
		if err := r.awaitEnd(); err != nil {
			r.t.Error(err)
		}
	})
}

// dispatchTraced dispatches a job over HTTP with a trace context.
func (r *testInstance) dispatchTraced(request, traceparent string) {
	r.t.Helper()
	body, err := json.Marshal(dispatchBody(request))
	if err != nil {
		r.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/v1/dispatch/f2f", bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("traceparent", traceparent)
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.read(http.StatusOK, "/v1/dispatch/f2f", resp)
}

// TestTraceOfAnHTTPJob: an HTTP node gets the context of its attempt in the header and the body of the callback, and the trace links to the span of
// the caller.
func TestTraceOfAnHTTPJob(t *testing.T) {
	t.Parallel()
	collector, url := startCollector(t)
	headers, redisURL := make(chan string, 1), redistest.Start(t).URL()
	r := startInstance(t, func(_ http.ResponseWriter, req *http.Request) { headers <- req.Header.Get("traceparent") }, traceTo(url, 1), func(c *config.Config) {
		c.Store = redisURL // whose times are in milliseconds, as those of the API
	})
	r.stopAtEnd()
	r.dispatchTraced("r1", callerSpan)
	a := r.awaitDelivery()
	header := <-headers
	attempt, valid := wire.ParseTraceparent(header)
	if !valid || !attempt.Sampled || a.Traceparent != header {
		t.Fatalf("the header is %q, the body has %q", header, a.Traceparent)
	}
	r.post(http.StatusOK, "/v1/job/ack", reportBody(a))
	r.post(http.StatusOK, "/v1/job/done", reportBody(a))
	spans := awaitTrace(t, collector, 1, "job", "dispatch", "select", "store.reserve", "store.create", "deliver", "store.commit", "store.apply")
	job := r.get(http.StatusOK, "/v1/jobs/"+a.JobID)
	total := int64(job["updated_ms"].(float64) - job["created_ms"].(float64))
	wantPhases(t, checkTrace(t, spans, wire.SessionLatency{TotalMS: total, NodeMS: total}), "wait", "attempt")
	for _, s := range spans {
		if s.Name == "attempt" && (s.ID != hex.EncodeToString(attempt.SpanID[:]) || s.Trace != hex.EncodeToString(attempt.TraceID[:])) {
			t.Errorf("the node has the context %s, the attempt is %s of %s", header, s.ID, s.Trace)
		}
		if want := s.Name == "dispatch"; want != slices.Equal(s.Links, []string{"0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"}) {
			t.Errorf("%s links to %v", s.Name, s.Links)
		}
	}
	wantExemplar(t, r.scheduler.Metrics.Registry, "lingua_dispatch_duration_seconds", spans[0].Trace)
	wantExemplar(t, r.scheduler.Metrics.Registry, "lingua_job_duration_seconds", spans[0].Trace)
}

// wantExemplar checks that a histogram has an exemplar of a trace.
func wantExemplar(t *testing.T, from prometheus.Gatherer, histogram, trace string) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != histogram {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, b := range m.GetHistogram().GetBucket() {
				for _, l := range b.GetExemplar().GetLabel() {
					if l.GetName() == "trace_id" && l.GetValue() == trace {
						return
					}
				}
			}
		}
	}
	t.Errorf("%s has no exemplar of trace %s", histogram, trace)
}

// TestCallerDoesNotForceSampling: the context of a caller makes no trace that the configuration does not sample, whatever it says. The node gets
// a context that says that the trace is not sampled.
func TestCallerDoesNotForceSampling(t *testing.T) {
	t.Parallel()
	collector, url := startCollector(t)
	r := startInstance(t, nil, traceTo(url, 0))
	for i, context := range []string{callerSpan, "forged", strings.Repeat("0", 55), ""} {
		r.dispatchTraced("r"+string(rune('0'+i)), context)
		a := r.awaitDelivery()
		if c, valid := wire.ParseTraceparent(a.Traceparent); !valid || c.Sampled || strings.Contains(a.Traceparent, "0af765") {
			t.Errorf("with the context %q of the caller the node gets %q", context, a.Traceparent)
		}
		r.post(http.StatusOK, "/v1/job/done", reportBody(a))
	}
	r.stop()
	if err := r.awaitEnd(); err != nil { // which exports what there is
		t.Error(err)
	}
	if spans, err := collector.Spans(""); len(spans) != 0 || err != nil {
		t.Errorf("%d spans were exported, %v", len(spans), err)
	}
}

// TestNoTracesByDefault: without a collector no node gets a trace context.
func TestNoTracesByDefault(t *testing.T) {
	t.Parallel()
	headers := make(chan string, 1)
	r := startInstance(t, func(_ http.ResponseWriter, req *http.Request) { headers <- req.Header.Get("traceparent") })
	r.stopAtEnd()
	r.dispatchTraced("r1", callerSpan)
	a, header := r.awaitDelivery(), <-headers
	if a.Traceparent != "" || header != "" {
		t.Errorf("the node gets the context %q, and in the header %q", a.Traceparent, header)
	}
	r.post(http.StatusOK, "/v1/job/done", reportBody(a))
}

// TestTracesOverTLS: spans go to a collector whose authority is configured, and to no other.
func TestTracesOverTLS(t *testing.T) {
	t.Parallel()
	collector := new(otlptest.Collector)
	srv := httptest.NewUnstartedServer(collector)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // it reports the handshakes that we refuse
	srv.StartTLS()
	t.Cleanup(srv.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		ca       string
		exported bool
	}{"trusted": {ca, true}, "not trusted": {"", false}} {
		t.Run(name, func(t *testing.T) {
			r := startInstance(t, nil, traceTo(srv.URL, 1), func(c *config.Config) { c.Scheduler.Tracing.TLSCA = test.ca })
			r.post(http.StatusOK, "/v1/job/done", reportBody(r.dispatchJob("r1")))
			r.stop()
			if err := r.awaitEnd(); err != nil {
				t.Error(err)
			}
			exported, dropped := testutil.ToFloat64(r.scheduler.Metrics.SpansExported), testutil.ToFloat64(r.scheduler.Metrics.SpansDropped.WithLabelValues("failed"))
			if (exported > 0) != test.exported || (dropped > 0) == test.exported {
				t.Errorf("%v spans were exported, %v failed", exported, dropped)
			}
		})
	}
}

// TestTraceOfARefusedUtterance: an utterance that no node can take has a trace, too.
func TestTraceOfARefusedUtterance(t *testing.T) {
	t.Parallel()
	collector, url := startCollector(t)
	cfg := config.Default()
	cfg.Server.Port, cfg.Scheduler.Sessions.JoinWaitMS = 0, 300
	traceTo(url, 1)(&cfg)
	s := fleet.StartSession(t, client.Config{URL: startScheduler(t, cfg)})
	if err := errors.Join(s.Begin(wire.UtteranceStart{Traceparent: callerSpan}), s.Utter(tone(200))); err != nil {
		t.Fatal(err)
	}
	var refused *wire.Error
	if _, err := s.Result(); !errors.As(err, &refused) {
		t.Fatal(err)
	}
	spans := awaitTrace(t, collector, 1, "utterance", "session.send", "dispatch")
	linked, roots := 0, 0
	for _, one := range spans {
		if one.Name == "dispatch" && len(one.Links) == 1 {
			linked++
		}
		if one.Parent == "" {
			roots++
			if one.Error != "NO_CAPABLE_NODE" || one.Duration().Milliseconds() < 300 {
				t.Errorf("the root is %+v", one)
			}
		}
		if one.Parent != "" && !slices.ContainsFunc(spans, func(p otlptest.Span) bool { return p.ID == one.Parent }) {
			t.Errorf("the parent of %s is missing", one.Name)
		}
	}
	if linked == 0 || roots != 1 {
		t.Errorf("%d dispatches are linked to the client's span, and there are %d roots", linked, roots)
	}
}

// TestTracesHaveNoSpeechAndNoSecrets: whatever nodes and clients say, and whatever is secret, is in no exported byte.
func TestTracesHaveNoSpeechAndNoSecrets(t *testing.T) {
	t.Parallel()
	const (
		spoken = "meet me at the old harbour"
		secret = "hunter2-4711"
	)
	collector, url := startCollector(t)
	r := startInstance(t, nil, traceTo(url+"?key="+secret, 1), func(c *config.Config) {
		c.Scheduler.Tracing.Token, c.Callback.Secret = secret, strings.Repeat(secret, 3)
	})
	r.stopAtEnd()
	startTracedNode(t, r.url, "node-1", collector, func(_ context.Context, job *node.Job) (node.Result, error) {
		job.Partial(node.Partial{TextSrc: spoken})
		if job.Attempt == 1 {
			return node.Result{}, node.Fail("cannot translate: " + spoken)
		}
		return node.Result{TextSrc: spoken, TextTgt: spoken, Extra: map[string]any{"note": spoken}, Speech: []byte(spoken)}, nil
	})
	waitUntil(t, "the node", waitLimit, func() bool { return r.scheduler.Fleet.Node("node-1") != nil })
	s := fleet.StartSession(t, client.Config{URL: r.url, Start: wire.SessionStart{Partials: true, ResumeToken: secret + strings.Repeat("x", 16)}})
	if result, err := s.Speak(tone(200)); err != nil || result.TextSrc != spoken {
		t.Fatalf("%+v, %v", result, err)
	}
	body := dispatchBody("r1")
	body["audio_ref"] = "https://store/" + secret + ".wav?sig=" + secret
	r.post(http.StatusOK, "/v1/dispatch/f2f", body)
	a := r.awaitDelivery()
	done := reportBody(a)
	done["result"] = map[string]any{"text_src": spoken}
	r.post(http.StatusOK, "/v1/job/done", done)
	waitUntil(t, "both roots", waitLimit, func() bool {
		spans, err := collector.Spans("")
		if err != nil {
			t.Fatal(err)
		}
		names := make(map[string]int)
		for _, s := range spans {
			names[s.Name]++
		}
		return names["utterance"] == 1 && names["job"] == 1 && names["session.send"] == 1
	})
	spans, _ := collector.Spans("")
	text, err := json.Marshal(spans) // with those of the node
	if err != nil {
		t.Fatal(err)
	}
	exported := string(collector.Raw()) + string(text)
	if !strings.Contains(exported, a.JobID) {
		t.Error("the job is not in the exported bytes: the test does not cover it")
	}
	for _, word := range []string{"harbour", secret} {
		if strings.Contains(exported, word) {
			t.Errorf("%q is exported", word)
		}
	}
}
