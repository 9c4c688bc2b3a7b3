package tracing

import (
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	otlp "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// scopeName is the instrumentation scope of our spans.
const scopeName = "github.com/lingua-scheduler/lingua"

// encodeSpans encodes spans as the body of an OTLP request.
func encodeSpans(of *resource.Resource, spans []*Span) ([]byte, error) {
	scope := &otlp.ScopeSpans{Scope: &common.InstrumentationScope{Name: scopeName}, Spans: make([]*otlp.Span, len(spans))}
	for i, s := range spans {
		scope.Spans[i] = protoSpan(s)
	}
	return proto.Marshal(&collector.ExportTraceServiceRequest{
		ResourceSpans: []*otlp.ResourceSpans{{Resource: of, ScopeSpans: []*otlp.ScopeSpans{scope}}},
	})
}

// protoSpan converts a span.
func protoSpan(s *Span) *otlp.Span {
	out := &otlp.Span{
		TraceId: s.trace[:], SpanId: s.ID[:], Name: s.Name, Kind: otlp.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: uint64(s.Start.UnixNano()), EndTimeUnixNano: uint64(max(s.End.UnixNano(), s.Start.UnixNano())),
		Attributes: protoAttrs(s.Attrs), Flags: 1,
	}
	if s.Parent != (SpanID{}) {
		out.ParentSpanId = s.Parent[:]
	}
	if s.Error != "" {
		out.Attributes = append(out.Attributes, protoAttr(Text(AttrReason, s.Error)))
		out.Status = &otlp.Status{Code: otlp.Status_STATUS_CODE_ERROR, Message: s.Error}
	}
	if s.Link != nil {
		out.Links = []*otlp.Span_Link{{TraceId: s.Link.TraceID[:], SpanId: s.Link.SpanID[:]}}
	}
	return out
}

func protoAttrs(attrs []Attr) []*common.KeyValue {
	out := make([]*common.KeyValue, len(attrs))
	for i, a := range attrs {
		out[i] = protoAttr(a)
	}
	return out
}

func protoAttr(a Attr) *common.KeyValue {
	value := &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: a.number}}
	if a.isText {
		value.Value = &common.AnyValue_StringValue{StringValue: a.text}
	}
	return &common.KeyValue{Key: a.key, Value: value}
}

// rejected returns how many spans of a request a collector says that it has rejected.
func rejected(response []byte) int64 {
	var r collector.ExportTraceServiceResponse
	if proto.Unmarshal(response, &r) != nil {
		return 0 // a collector that answers in another format accepts all
	}
	return r.GetPartialSuccess().GetRejectedSpans()
}
