// Package otlptest is a stand-in for an OpenTelemetry collector, for tests.
package otlptest

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span that the collector has received.
type Span struct {
	Trace, ID, Parent string // in hexadecimal; the root has no parent
	Name              string
	Instance          string // of the service that exported it
	Start, End        time.Time
	Attrs             map[string]any
	Error             string
	Links             []string // trace and span, in hexadecimal
}

// Duration is how long the span lasted.
func (s *Span) Duration() time.Duration { return s.End.Sub(s.Start) }

// Collector accepts spans over OTLP/HTTP and keeps them.
type Collector struct {
	mu      sync.Mutex
	spans   []Span
	raw     []byte // every request, with its headers
	problem error
	answer  http.Handler // nil: it accepts
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	answer := c.answer
	c.mu.Unlock()
	if answer != nil {
		answer.ServeHTTP(w, r)
		return
	}
	var in collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &in)
	}
	if got := r.Header.Get("Content-Type"); err == nil && (r.Method != http.MethodPost || got != "application/x-protobuf") {
		err = fmt.Errorf("a request %s with Content-Type %q", r.Method, got)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.problem = err
		http.Error(w, "invalid", http.StatusBadRequest)
		return
	}
	c.raw = append(c.raw, body...)
	for _, rs := range in.GetResourceSpans() {
		instance, _ := attrs(rs.GetResource().GetAttributes())["service.instance.id"].(string)
		for _, scope := range rs.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, spanOf(s, instance))
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// SetAnswer makes the collector answer otherwise and keep nothing; nil: it accepts again.
func (c *Collector) SetAnswer(h http.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = h
}

// Add adds a span that was exported by other means.
func (c *Collector) Add(s Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, s)
}

// Spans returns the spans of a trace, or all if it is empty, and what was wrong with a request, if anything.
func (c *Collector) Spans(trace string) ([]Span, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Clone(c.spans)
	if trace != "" {
		list = slices.DeleteFunc(list, func(s Span) bool { return s.Trace != trace })
	}
	return list, c.problem
}

// Raw returns the bytes of all requests.
func (c *Collector) Raw() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.raw)
}

func spanOf(s *otlp.Span, instance string) Span {
	out := Span{
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Name: s.GetName(), Instance: instance, Attrs: attrs(s.GetAttributes()),
		Start: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())),
		Error: s.GetStatus().GetMessage(),
	}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, hex.EncodeToString(l.GetTraceId())+"-"+hex.EncodeToString(l.GetSpanId()))
	}
	return out
}

func attrs(list []*common.KeyValue) map[string]any {
	out := make(map[string]any, len(list))
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			out[kv.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			out[kv.GetKey()] = v.IntValue
		}
	}
	return out
}

// Tree formats spans as a tree, each with the beginning and the duration in milliseconds, relative to the first root.
func Tree(spans []Span) string {
	children := make(map[string][]Span)
	for _, s := range spans {
		children[s.Parent] = append(children[s.Parent], s)
	}
	for _, list := range children {
		slices.SortStableFunc(list, func(a, b Span) int {
			return cmp.Or(a.Start.Compare(b.Start), b.End.Compare(a.End), cmp.Compare(a.Name, b.Name))
		})
	}
	var b strings.Builder
	var origin time.Time
	var write func(parent string, depth int)
	write = func(parent string, depth int) {
		for _, s := range children[parent] {
			if origin.IsZero() {
				origin = s.Start
			}
			fmt.Fprintf(&b, "%-40s %8.1f %8.1f ms  %s", strings.Repeat("  ", depth)+s.Name, ms(s.Start.Sub(origin)), ms(s.Duration()),
				s.Instance)
			for _, key := range []string{"lingua.node_id", "lingua.attempt_id", "lingua.event", "lingua.verdict", "lingua.transport"} {
				if v, ok := s.Attrs[key]; ok {
					fmt.Fprintf(&b, " %s=%v", strings.TrimPrefix(key, "lingua."), v)
				}
			}
			if s.Error != "" {
				fmt.Fprintf(&b, " error=%s", s.Error)
			}
			b.WriteByte('\n')
			write(s.ID, depth+1)
		}
	}
	write("", 0)
	return b.String()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
