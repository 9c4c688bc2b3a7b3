package scheduler_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/otlptest"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// startCollector runs a stand-in for a collector and returns its URL for spans.
func startCollector(t *testing.T) (*otlptest.Collector, string) {
	t.Helper()
	c := new(otlptest.Collector)
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	return c, srv.URL + "/v1/traces"
}

// nodeExporter passes the spans that the OpenTelemetry SDK makes in a node on to a collector.
type nodeExporter struct {
	collector *otlptest.Collector
	node      string
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *nodeExporter) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	for _, s := range spans {
		out := otlptest.Span{
			Trace: s.SpanContext().TraceID().String(), ID: s.SpanContext().SpanID().String(), Name: s.Name(), Instance: e.node,
			Start: s.StartTime(), End: s.EndTime(), Error: s.Status().Description, Attrs: make(map[string]any),
		}
		if s.Parent().IsValid() {
			out.Parent = s.Parent().SpanID().String()
		}
		for _, a := range s.Attributes() {
			if a.Value.Type() == attribute.INT64 {
				out.Attrs[string(a.Key)] = a.Value.AsInt64()
			} else {
				out.Attrs[string(a.Key)] = a.Value.AsString()
			}
		}
		e.collector.Add(out)
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (*nodeExporter) Shutdown(context.Context) error { return nil }

// startTracedNode runs a node whose spans go to a collector, until the test ends.
func startTracedNode(t *testing.T, url, id string, collector *otlptest.Collector, handler node.Handler) {
	t.Helper()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(&nodeExporter{collector, id}))
	fleet.StartNodes(t, handler, node.Config{URL: url, ID: id, Slots: 4, TracerProvider: provider})
}

// awaitTrace waits until the collector has spans of these names, as many of each as it is named, from as many instances and nodes as given, and the
// parent of each, and returns all spans. Each instance and node exports its own, in its own time.
func awaitTrace(t *testing.T, c *otlptest.Collector, services int, names ...string) []otlptest.Span {
	t.Helper()
	var spans []otlptest.Span
	defer func() { t.Logf("the trace:\n%s", otlptest.Tree(spans)) }()
	waitUntil(t, fmt.Sprintf("the spans %v from %d instances and nodes", names, services), waitLimit, func() bool {
		var err error
		if spans, err = c.Spans(""); err != nil {
			t.Fatal(err)
		}
		return isComplete(spans, services, names)
	})
	return spans
}

// isComplete reports whether there is all that awaitTrace waits for.
func isComplete(spans []otlptest.Span, services int, names []string) bool {
	count, from, ids := make(map[string]int), make(map[string]bool), map[string]bool{"": true}
	for _, s := range spans {
		count[s.Name]++
		from[s.Instance], ids[s.ID] = true, true
	}
	for _, name := range names {
		if count[name]--; count[name] < 0 {
			return false
		}
	}
	return len(from) == services && !slices.ContainsFunc(spans, func(s otlptest.Span) bool { return !ids[s.Parent] })
}

// checkTrace checks that the spans are one tree, whose phases cover it without a gap and last as long as the latency says. It returns the
// phases.
func checkTrace(t *testing.T, spans []otlptest.Span, latency wire.SessionLatency) []otlptest.Span {
	t.Helper()
	byID := make(map[string]otlptest.Span)
	var root otlptest.Span
	for _, s := range spans {
		if s.Trace != spans[0].Trace {
			t.Errorf("%s is in trace %s, want %s", s.Name, s.Trace, spans[0].Trace)
		}
		if other, twice := byID[s.ID]; twice {
			t.Errorf("%s and %s have the same id", s.Name, other.Name)
		}
		byID[s.ID] = s
		if s.Parent == "" {
			if root.ID != "" {
				t.Errorf("%s and %s are roots", root.Name, s.Name)
			}
			root = s
		}
	}
	var phases []otlptest.Span
	for _, s := range spans {
		if _, known := byID[s.Parent]; !known && s.Parent != "" {
			t.Errorf("the parent of %s of %s is missing", s.Name, s.Instance)
		}
		if s.Parent == root.ID {
			phases = append(phases, s)
		}
	}
	slices.SortStableFunc(phases, func(a, b otlptest.Span) int { return cmp.Or(a.Start.Compare(b.Start), a.End.Compare(b.End)) })
	at, sum := root.Start, time.Duration(0)
	for _, s := range phases {
		if !s.Start.Equal(at) {
			t.Errorf("%s begins %v after the end of the phase before", s.Name, s.Start.Sub(at))
		}
		at = s.End
		sum += s.Duration()
	}
	if !at.Equal(root.End) {
		t.Errorf("the last phase ends %v before the root", root.End.Sub(at))
	}
	total := time.Duration(latency.TotalMS) * time.Millisecond
	if root.Duration() != total || sum != total {
		t.Errorf("the root lasts %v, its phases %v, and total_ms is %v", root.Duration(), sum, total)
	}
	first, last := phases[0], phases[len(phases)-1]
	if first.Name != "wait" || first.Duration().Milliseconds() != latency.WaitMS {
		t.Errorf("%s lasts %v, want wait and %d ms", first.Name, first.Duration(), latency.WaitMS)
	}
	if last.Name != "attempt" || last.Duration().Milliseconds() != latency.NodeMS {
		t.Errorf("%s lasts %v, want attempt and %d ms", last.Name, last.Duration(), latency.NodeMS)
	}
	return phases
}

// wantPhases checks the names of the phases of a trace.
func wantPhases(t *testing.T, phases []otlptest.Span, want ...string) {
	t.Helper()
	var names []string
	for _, s := range phases {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("the phases are %v, want %v", names, want)
	}
}

// TestTraceOfARetriedUtterance follows an utterance that is retried on a node of another instance through its trace.
func TestTraceOfARetriedUtterance(t *testing.T) {
	t.Parallel()
	t.Run("a node fails", traceOfFailedNode)
	t.Run("the dispatching instance dies", traceOfDeadInstance)
}

// traceOfFailedNode: a session on one instance, a node on each of two others. The first attempt fails on one of them, the second succeeds on
// the other.
func traceOfFailedNode(t *testing.T) {
	t.Parallel()
	collector, url := startCollector(t)
	cfg := fastConfig()
	withoutRetries(&cfg)
	cfg.Scheduler.Tracing.Endpoint, cfg.Scheduler.Tracing.SampleRatio = url, 1
	instances := startInstances(t, 3, redistest.Start(t).URL(), cfg, nil)
	for i := range 2 {
		startTracedNode(t, instances[i+1].peer.URL, fmt.Sprintf("node-%d", i), collector, func(ctx context.Context, job *node.Job) (node.Result, error) {
			if _, err := job.Audio(ctx); err != nil {
				return node.Result{}, err
			}
			if job.Attempt == 1 {
				return node.Result{}, node.Fail("OUT_OF_MEMORY")
			}
			return node.Result{TextSrc: "hello", TextTgt: "hola"}, nil
		})
	}
	waitUntil(t, "all instances to see the nodes", waitLimit, func() bool { return instances.allSee("node-0", "node-1") })
	result, err := fleet.StartSession(t, client.Config{URL: instances[0].peer.URL}).Speak(tone(200))
	if err != nil {
		t.Fatal(err)
	}
	spans := awaitTrace(t, collector, 5, "utterance", "session.send", "node.job", "node.job", "dispatch", "select", "store.save_session", "store.reserve",
		"store.create", "deliver", "deliver.remote", "store.commit", "store.apply", "store.append")
	phases := checkTrace(t, spans, result.Latency)
	wantPhases(t, phases, "wait", "attempt", "retry", "attempt")
	if phases[1].Error != "NODE_FAILED" || phases[1].Attrs["lingua.node_id"] == phases[3].Attrs["lingua.node_id"] {
		t.Errorf("the first attempt is %+v, the second %+v", phases[1], phases[3])
	}
}

// traceOfDeadInstance: the instance that has the session and dispatched the job is killed in the second attempt, which then fails. The
// client continues on another instance, which gives the job to a node for the third time.
func traceOfDeadInstance(t *testing.T) {
	t.Parallel()
	collector, url := startCollector(t)
	instances := startProcesses(t, 3, redistest.Start(t), nil,
		"LINGUA_SCHEDULER_TRACING_OTLP_ENDPOINT="+url, "LINGUA_SCHEDULER_TRACING_SAMPLE_RATIO=1")
	var urls []string
	for _, in := range instances {
		urls = append(urls, in.URL())
	}
	s := fleet.StartSession(t, client.Config{URLs: urls})
	dies := instanceOfSession(t, instances)
	second, died := make(chan struct{}), make(chan struct{})
	for i, in := range instances {
		if in != dies {
			startTracedNode(t, in.URL(), fmt.Sprintf("node-%d", i), collector, failTwice(second, died))
		}
	}
	if err := s.Utter(tone(200)); err != nil {
		t.Fatal(err)
	}
	<-second
	waitUntil(t, "the spans of the instance", waitLimit, func() bool {
		spans, _ := collector.Spans("")
		return slices.ContainsFunc(spans, func(s otlptest.Span) bool { return s.Name == "deliver" && s.Attrs["lingua.attempt_id"] == int64(2) })
	})
	dies.Process.KillAndWait()
	close(died)
	result, err := s.Result()
	if err != nil {
		t.Fatal(err)
	}
	spans := awaitTrace(t, collector, 5, "utterance", "session.send", "node.job", "node.job", "node.job",
		"dispatch", "deliver", "deliver.remote", "store.apply", "store.append")
	wantPhases(t, checkTrace(t, spans, result.Latency), "wait", "attempt", "retry", "attempt", "retry", "attempt")
}

// failTwice returns a handler that fails in the first attempt and, when an instance has died, in the second.
func failTwice(second chan<- struct{}, died <-chan struct{}) node.Handler {
	return func(ctx context.Context, job *node.Job) (node.Result, error) {
		if _, err := job.Audio(ctx); err != nil {
			return node.Result{}, err
		}
		switch job.Attempt {
		case 1:
			return node.Result{}, node.Fail("OUT_OF_MEMORY")
		case 2:
			close(second)
			<-died
			return node.Result{}, node.Fail("OUT_OF_MEMORY")
		}
		return node.Result{TextSrc: "hello", TextTgt: "hola"}, nil
	}
}

// instanceOfSession returns the instance that has the only session.
func instanceOfSession(t *testing.T, instances []*clustertest.Instance) *clustertest.Instance {
	t.Helper()
	var found *clustertest.Instance
	waitUntil(t, "the session to be listed", waitLimit, func() bool {
		for _, in := range instances {
			var list wire.InstanceList
			if in.Read(t.Context(), "/v1/instances", &list) != nil {
				return false
			}
			for _, one := range list.Instances {
				if one.This && one.Sessions == 1 {
					found = in
				}
			}
		}
		return found != nil
	})
	return found
}
