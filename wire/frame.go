package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Subprotocol is what both sockets speak. A browser, which cannot set headers, names its token as a second
// subprotocol: TokenSubprotocol and the token.
const (
	Subprotocol      = "lingua.v1"
	TokenSubprotocol = "lingua.token."
)

// MaxFrame is the largest message on a socket, in bytes.
const MaxFrame = 256 << 10

// FrameType names what a text frame is; it is the field "type" of its object.
type FrameType string

// Frame is the content of one text frame. Its type is not among its fields: EncodeFrame writes it.
type Frame interface {
	Type() FrameType
}

// EncodeFrame writes a frame.
func EncodeFrame(f Frame) ([]byte, error) {
	var buf bytes.Buffer
	fmt.Fprintf(&buf, `{"type":%q`, f.Type())
	at := buf.Len()
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(f); err != nil {
		return nil, err
	}
	b := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	if b[at+1] == '}' { // no fields
		return append(b[:at], '}'), nil
	}
	b[at] = ','
	return b, nil
}

// TypeOf reads which type a text frame is of. Whether the rest of it is JSON is for whoever decodes it to say. The error,
// if any, is an *Error.
func TypeOf(text []byte) (FrameType, error) {
	if rest, ok := bytes.CutPrefix(text, []byte(`{"type":"`)); ok { // as everybody writes it
		if name, _, ok := bytes.Cut(rest, []byte(`"`)); ok && len(name) > 0 && !bytes.ContainsRune(name, '\\') {
			return FrameType(name), nil
		}
	}
	var head struct {
		Type FrameType `json:"type"`
	}
	if err := Decode(text, &head); err != nil {
		return "", err
	}
	if head.Type == "" {
		return "", Invalid("type", "says what the message is, and is missing")
	}
	return head.Type, nil
}

// CloseCode says why a socket was closed. Those from 4400 on mean: do not come back without a change; those from 4500
// on: come back after a while, and not all at once.
type CloseCode int

// The codes. Before a close with any of them, an error frame says more.
const (
	CloseNormal       CloseCode = 1000
	CloseBadMessage   CloseCode = 4400
	CloseUnauthorized CloseCode = 4401
	CloseForbidden    CloseCode = 4403
	CloseNotFound     CloseCode = 4404
	CloseIdle         CloseCode = 4408
	CloseReplaced     CloseCode = 4409
	CloseTooLarge     CloseCode = 4413
	CloseTooFast      CloseCode = 4429
	CloseInternal     CloseCode = 4500
	CloseDraining     CloseCode = 4503
	CloseSlow         CloseCode = 4504
	CloseOverloaded   CloseCode = 4529
)

// Retry reports whether coming back, with a jittered backoff, makes sense.
func (c CloseCode) Retry() bool { return c < 4400 || c >= 4500 }

// ErrorFrame says that something went wrong. If it names an utterance it is how that utterance ended, and then it is
// durable and has a seq; else it is about the message that it answers, or about the connection.
type ErrorFrame struct {
	Error
	Seq            int64  `json:"seq,omitempty" doc:"Position in the session's durable messages."`
	Fatal          bool   `json:"fatal,omitempty" doc:"The connection is closed after this."`
	Reply          string `json:"reply_to,omitempty" doc:"The type of the message this answers."`
	RequestID      string `json:"request_id,omitempty"`
	UtteranceID    string `json:"utterance_id,omitempty"`
	UtteranceIndex *int64 `json:"utterance_index,omitempty" doc:"Which utterance ended with this, counted from 0."`
	Continues      *int64 `json:"continues,omitempty" doc:"As in utterance_committed."`
	Reason         string `json:"reason,omitempty" doc:"Why the utterance's job ended."`
}

// Type implements Frame.
func (ErrorFrame) Type() FrameType { return "error" }

// Warning says that something was not as it should be and was left aside.
type Warning struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Type implements Frame.
func (Warning) Type() FrameType { return "warning" }

// GoAway asks the other side to connect again elsewhere: this instance is about to stop.
type GoAway struct {
	Reason      string `json:"reason"`
	ReconnectMS int64  `json:"reconnect_ms" doc:"When to leave: the connection is closed soon after."`
}

// Type implements Frame.
func (GoAway) Type() FrameType { return "go_away" }
