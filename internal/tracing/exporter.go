package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/run"
)

const (
	maxQueued     = 8192        // spans that wait to be exported; others are dropped and counted
	maxBatch      = 512         // spans of one request
	batchInterval = time.Second // how long a span waits for others of its batch
	maxTries      = 5           // of one batch
	maxRetryAfter = 30          // seconds that a collector may ask us to wait
	warnInterval  = time.Minute // between two warnings
	maxResponse   = 64 << 10
)

// Why a span was dropped, metric labels.
const (
	droppedQueueFull = "queue_full" // too many spans waited
	droppedFailed    = "failed"     // the collector could not be reached, or refused the request
	droppedRejected  = "rejected"   // the collector accepted the request, and rejected the span
)

// retryBackoff is between two tries of a batch.
var retryBackoff = run.Backoff{Min: 200 * time.Millisecond, Max: 5 * time.Second}

// exporter posts spans to a collector. Nothing waits for it: spans that do not fit into its queue are dropped.
type exporter struct {
	url      string
	header   http.Header
	client   *http.Client
	timeout  time.Duration
	resource *resource.Resource
	exported prometheus.Counter
	dropped  *prometheus.CounterVec
	log      *slog.Logger

	queue    chan *Span
	warnedAt time.Time // of the goroutine that runs
}

func newExporter(o Options) *exporter {
	e := &exporter{
		url: o.URL, header: http.Header{"Content-Type": {"application/x-protobuf"}, "User-Agent": {"lingua-scheduler/" + o.Version}},
		timeout: o.Timeout, exported: o.Exported, dropped: o.Dropped, log: o.Log, queue: make(chan *Span, maxQueued),
		client: &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token is for the configured address only
		}},
		resource: &resource.Resource{Attributes: protoAttrs([]Attr{
			Text("service.name", "lingua-scheduler"), Text("service.version", o.Version), Text("service.instance.id", o.Instance),
		})},
	}
	if o.Token != "" {
		value := o.Token
		if strings.EqualFold(o.Header, "Authorization") {
			value = "Bearer " + value
		}
		e.header.Set(o.Header, value)
	}
	return e
}

// add queues a span, or drops it if the queue is full. It never waits.
func (e *exporter) add(s *Span) {
	select {
	case e.queue <- s:
	default:
		e.dropped.WithLabelValues(droppedQueueFull).Inc()
	}
}

// run exports until the context ends, and then what is queued.
func (e *exporter) run(ctx context.Context) {
	defer e.client.CloseIdleConnections()
	for {
		batch := e.collect(ctx)
		if ctx.Err() != nil {
			e.flush(context.WithoutCancel(ctx), batch)
			return
		}
		if !e.export(ctx, batch) {
			e.flush(context.WithoutCancel(ctx), batch)
			return
		}
	}
}

// collect returns the next batch: when it is full, a while after its first span, or when the context has ended.
func (e *exporter) collect(ctx context.Context) []*Span {
	var batch []*Span
	var full <-chan time.Time
	for len(batch) < maxBatch {
		select {
		case s := <-e.queue:
			if batch = append(batch, s); full == nil {
				full = time.After(batchInterval)
			}
		case <-full:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// export posts a batch, several times if the collector may accept it later. It returns false if the context ended first: the batch is then
// neither exported nor counted.
func (e *exporter) export(ctx context.Context, batch []*Span) bool {
	wait := retryBackoff
	for try := 1; ; try++ {
		err := e.post(ctx, batch)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		var retry *retryableError
		if !errors.As(err, &retry) || try == maxTries {
			e.drop(len(batch), err)
			return true
		}
		e.warn(err)
		if retry.after > 0 && !run.Sleep(ctx, retry.after) || retry.after == 0 && !wait.Wait(ctx) {
			return false
		}
	}
}

// flush posts a batch and what is queued, each once, within the timeout of one request: a stopping instance does not wait for its
// collector.
func (e *exporter) flush(ctx context.Context, batch []*Span) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	for {
		for len(batch) < maxBatch && len(e.queue) > 0 {
			batch = append(batch, <-e.queue)
		}
		if len(batch) == 0 {
			return
		}
		if err := e.post(ctx, batch); err != nil {
			e.drop(len(batch)+len(e.queue), err)
			return
		}
		batch = nil
	}
}

// drop counts spans that are given up.
func (e *exporter) drop(spans int, err error) {
	e.dropped.WithLabelValues(droppedFailed).Add(float64(spans))
	e.warn(err)
}

// warn logs that spans could not be exported, once in a while.
func (e *exporter) warn(err error) {
	if now := time.Now(); now.Sub(e.warnedAt) >= warnInterval {
		e.warnedAt = now
		e.log.Warn("spans could not be exported; further warnings are withheld for a minute, lingua_spans_dropped_total counts the "+
			"spans that are lost", "error", err)
	}
}

// retryableError says that a collector may accept a batch later.
type retryableError struct {
	text  string
	after time.Duration // as the collector asks; 0: it does not
}

func (e *retryableError) Error() string { return e.text }

// post posts a batch once. The error does not contain the URL, which may contain a secret, and nothing of the response.
func (e *exporter) post(ctx context.Context, batch []*Span) error {
	body, err := encodeSpans(e.resource, batch)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address of the collector cannot be used")
	}
	req.Header = e.header.Clone()
	resp, err := e.client.Do(req)
	if err != nil {
		var failed *url.Error
		for errors.As(err, &failed) {
			err = failed.Err
		}
		return &retryableError{text: fmt.Sprintf("the collector cannot be reached: %v", err)}
	}
	defer resp.Body.Close()
	response, _ := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	switch {
	case resp.StatusCode/100 == 2:
		lost := min(max(rejected(response), 0), int64(len(batch)))
		e.exported.Add(float64(int64(len(batch)) - lost))
		if lost > 0 {
			e.dropped.WithLabelValues(droppedRejected).Add(float64(lost))
		}
		return nil
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusBadGateway,
		resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // a date, which hardly any collector sends, counts as none
		after := time.Duration(min(max(seconds, 0), maxRetryAfter)) * time.Second
		return &retryableError{text: fmt.Sprintf("the collector answered %d", resp.StatusCode), after: after}
	}
	return fmt.Errorf("the collector answered %d", resp.StatusCode)
}
