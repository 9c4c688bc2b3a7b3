package wire

import "encoding/hex"

// TraceparentHeader is the HTTP header, in its canonical form, with the W3C trace context of a request: of a dispatch, the caller's; of a
// callback to a node, that of the attempt.
const TraceparentHeader = "Traceparent"

// TraceContext is a W3C trace context: the span under which a receiver continues a trace.
type TraceContext struct {
	TraceID [16]byte
	SpanID  [8]byte
	Sampled bool // the sender exports its spans of this trace
}

// traceparentLength is the length of a traceparent of version 00.
const traceparentLength = 55

// maxTraceparent bounds a traceparent of a later version, which may be longer.
const maxTraceparent = 512

// ParseTraceparent reads a W3C traceparent, such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01. It reports false for anything
// else: a receiver then acts as if there were none.
func ParseTraceparent(text string) (TraceContext, bool) {
	var c TraceContext
	if len(text) < traceparentLength || len(text) > maxTraceparent || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return c, false
	}
	var version, flags [1]byte
	for _, field := range []struct {
		into []byte
		text string
	}{{version[:], text[:2]}, {c.TraceID[:], text[3:35]}, {c.SpanID[:], text[36:52]}, {flags[:], text[53:55]}} {
		if !isLowerHex(field.text) {
			return TraceContext{}, false
		}
		_, _ = hex.Decode(field.into, []byte(field.text)) // every character was checked
	}
	if version[0] == 0xff || version[0] == 0 && len(text) != traceparentLength || len(text) > traceparentLength &&
		text[traceparentLength] != '-' {
		return TraceContext{}, false
	}
	if c.TraceID == [16]byte{} || c.SpanID == [8]byte{} {
		return TraceContext{}, false
	}
	c.Sampled = flags[0]&1 != 0
	return c, true
}

func isLowerHex(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Traceparent returns the context as a W3C traceparent of version 00.
func (c TraceContext) Traceparent() string {
	b := make([]byte, 0, traceparentLength)
	b = hex.AppendEncode(append(b, "00-"...), c.TraceID[:])
	b = hex.AppendEncode(append(b, '-'), c.SpanID[:])
	if c.Sampled {
		return string(append(b, "-01"...))
	}
	return string(append(b, "-00"...))
}
