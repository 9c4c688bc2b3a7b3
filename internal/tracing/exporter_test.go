package tracing

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// fakeCollector answers requests in place of a collector.
type fakeCollector struct {
	mu       sync.Mutex
	answer   func(*http.Request) (*http.Response, error)
	requests []*http.Request
	spans    []int // of each request
}

// RoundTrip implements http.RoundTripper.
func (c *fakeCollector) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var in collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.requests = append(c.requests, r)
	c.spans = append(c.spans, len(in.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()))
	answer := c.answer
	c.mu.Unlock()
	if answer == nil {
		return response(http.StatusOK, nil), nil
	}
	return answer(r)
}

func (c *fakeCollector) setAnswer(fn func(*http.Request) (*http.Response, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = fn
}

func (c *fakeCollector) received() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int(nil), c.spans...)
}

func response(status int, body []byte) *http.Response {
	return &http.Response{StatusCode: status, Header: make(http.Header), Body: io.NopCloser(bytes.NewReader(body))}
}

// exporting is a tracer that exports to a fake collector.
type exporting struct {
	*fakeCollector
	tracer   *Tracer
	exported prometheus.Counter
	dropped  *prometheus.CounterVec
	log      *bytes.Buffer
	stop     func()
}

func (e *exporting) record(spans int) {
	for range spans {
		e.tracer.Of("job-1").Record(Span{Name: "x"})
	}
}

// want checks what was exported and dropped.
func (e *exporting) want(t *testing.T, exported float64, reason string, dropped float64) {
	t.Helper()
	if got := testutil.ToFloat64(e.exported); got != exported {
		t.Errorf("%v spans were exported, want %v", got, exported)
	}
	if got := testutil.ToFloat64(e.dropped.WithLabelValues(reason)); got != dropped {
		t.Errorf("%v spans are counted as %s, want %v", got, reason, dropped)
	}
}

// export runs a test with a tracer that exports, in a bubble of its own.
func export(t *testing.T, fn func(t *testing.T, e *exporting)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &exporting{fakeCollector: new(fakeCollector), log: new(bytes.Buffer)}
		e.exported = prometheus.NewCounter(prometheus.CounterOpts{Name: "exported"})
		e.dropped = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dropped"}, []string{"reason"})
		e.tracer = New(Options{
			URL: "http://collector/v1/traces?key=hunter2", Header: "Authorization", Token: "collector-token", SampleRatio: 1, Timeout: 5 * time.Second,
			Transport: e.fakeCollector, Instance: "i-1", Version: "test", Exported: e.exported, Dropped: e.dropped, Log: slog.New(slog.NewTextHandler(e.log, nil)),
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { e.tracer.Run(ctx) })
		e.stop = func() {
			cancel()
			running.Wait()
		}
		defer e.stop()
		fn(t, e)
	})
}

func TestSpansAreExportedInBatches(t *testing.T) {
	export(t, func(t *testing.T, e *exporting) {
		e.record(3)
		time.Sleep(batchInterval / 2)
		synctest.Wait()
		if got := e.received(); len(got) != 0 {
			t.Errorf("%v before the interval", got)
		}
		time.Sleep(batchInterval)
		synctest.Wait()
		e.record(maxBatch + 1) // a full batch does not wait
		synctest.Wait()
		if got := e.received(); len(got) != 2 || got[0] != 3 || got[1] != maxBatch {
			t.Errorf("%v, want 3 and %d", got, maxBatch)
		}
		r := e.requests[0]
		if r.Header.Get("Authorization") != "Bearer collector-token" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("the header is %v", r.Header)
		}
		e.stop()
		e.want(t, maxBatch+4, droppedFailed, 0)
	})
}

// TestCollectorIsRetried: a collector that is busy gets the batch again, and spans wait meanwhile.
func TestCollectorIsRetried(t *testing.T) {
	export(t, func(t *testing.T, e *exporting) {
		e.setAnswer(func(*http.Request) (*http.Response, error) {
			busy := response(http.StatusServiceUnavailable, nil)
			busy.Header.Set("Retry-After", "7")
			return busy, nil
		})
		e.record(1)
		time.Sleep(2 * batchInterval)
		synctest.Wait()
		e.setAnswer(nil)
		e.record(1)
		if got := len(e.received()); got != 1 {
			t.Errorf("%d requests before the time that the collector asked for", got)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		e.want(t, 2, droppedFailed, 0)
		if n := strings.Count(e.log.String(), "\n"); n != 1 {
			t.Errorf("%d lines are logged, want 1:\n%s", n, e.log)
		}
	})
}

// TestUnreachableCollector: spans are given up after some tries, and when too many wait. One warning is logged each minute, without the
// address and the token.
func TestUnreachableCollector(t *testing.T) {
	export(t, func(t *testing.T, e *exporting) {
		e.setAnswer(func(r *http.Request) (*http.Response, error) {
			return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: errors.New("connection refused")}
		})
		e.record(maxBatch)
		synctest.Wait()
		e.record(maxQueued + 5) // they do not fit beside the batch that is tried
		e.want(t, 0, droppedQueueFull, 5)
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if got := testutil.ToFloat64(e.dropped.WithLabelValues(droppedFailed)); got < maxBatch {
			t.Errorf("%v spans were given up, want %d or more", got, maxBatch)
		}
		if n := strings.Count(e.log.String(), "\n"); n != 1 {
			t.Errorf("%d lines are logged, want 1:\n%s", n, e.log)
		}
		for _, secret := range []string{"hunter2", "collector-token"} {
			if strings.Contains(e.log.String(), secret) {
				t.Errorf("%s is logged", secret)
			}
		}
		began := time.Now()
		e.stop()
		if took := time.Since(began); took > e.tracer.exporter.timeout {
			t.Errorf("it stopped after %v", took)
		}
		lost := testutil.ToFloat64(e.dropped.WithLabelValues(droppedFailed)) + testutil.ToFloat64(e.dropped.WithLabelValues(droppedQueueFull))
		if lost != maxBatch+maxQueued+5 {
			t.Errorf("%v spans are counted as lost, want all of %d", lost, maxBatch+maxQueued+5)
		}
	})
}

func TestRefusedBatchIsNotRepeated(t *testing.T) {
	export(t, func(t *testing.T, e *exporting) {
		for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusFound} {
			e.setAnswer(func(*http.Request) (*http.Response, error) {
				r := response(status, []byte("what the collector says"))
				r.Header.Set("Location", "http://elsewhere/")
				return r, nil
			})
			e.record(1)
			time.Sleep(2 * batchInterval)
			synctest.Wait()
		}
		e.want(t, 0, droppedFailed, 3)
		if got := e.received(); len(got) != 3 {
			t.Errorf("%d requests for three batches", len(got))
		}
	})
}

func TestRejectedSpansAreCounted(t *testing.T) {
	export(t, func(t *testing.T, e *exporting) {
		body, err := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 2}})
		if err != nil {
			t.Fatal(err)
		}
		e.setAnswer(func(*http.Request) (*http.Response, error) { return response(http.StatusOK, body), nil })
		e.record(5)
		time.Sleep(2 * batchInterval)
		synctest.Wait()
		e.want(t, 3, droppedRejected, 2)
	})
}

// TestLastSpansAreExported: an instance that stops exports what is queued, and does not wait longer than the timeout for a collector that does
// not answer.
func TestLastSpansAreExported(t *testing.T) {
	export(t, func(t *testing.T, e *exporting) {
		e.record(maxBatch + 10)
		e.stop()
		e.want(t, maxBatch+10, droppedFailed, 0)
	})
}

func TestHangingCollectorDoesNotDelayTheStop(t *testing.T) {
	export(t, func(t *testing.T, e *exporting) {
		e.setAnswer(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		e.record(10)
		began := time.Now()
		e.stop()
		if took := time.Since(began); took != e.tracer.exporter.timeout {
			t.Errorf("it stopped after %v, want %v", took, e.tracer.exporter.timeout)
		}
		e.want(t, 0, droppedFailed, 10)
	})
}

// TestSlowCollectorDoesNotDelayTheStop: the timeout is that of all last requests together.
func TestSlowCollectorDoesNotDelayTheStop(t *testing.T) {
	export(t, func(t *testing.T, e *exporting) {
		e.setAnswer(func(r *http.Request) (*http.Response, error) {
			select {
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-time.After(e.tracer.exporter.timeout - time.Second):
				return response(http.StatusOK, nil), nil
			}
		})
		e.record(3*maxBatch - 1)
		began := time.Now()
		e.stop()
		if took := time.Since(began); took != e.tracer.exporter.timeout {
			t.Errorf("it stopped after %v, want %v", took, e.tracer.exporter.timeout)
		}
		e.want(t, maxBatch, droppedFailed, 2*maxBatch-1)
	})
}

func TestTokenInAnotherHeader(t *testing.T) {
	t.Parallel()
	e := newExporter(Options{Header: "X-Api-Key", Token: "secret", Instance: "i-1"})
	if got := e.header.Get("X-Api-Key"); got != "secret" || e.header.Get("Authorization") != "" {
		t.Errorf("the header is %v", e.header)
	}
	if e := newExporter(Options{Header: "Authorization"}); len(e.header["Authorization"]) != 0 {
		t.Errorf("a header without a token: %v", e.header)
	}
}
