package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
)

const (
	// Subprotocol is the WebSocket subprotocol of both sockets.
	Subprotocol = "lingua.v1"
	// TokenSubprotocol is the prefix of a second subprotocol that carries the token, for browsers, which cannot set headers.
	TokenSubprotocol = "lingua.token."
)

// MaxFrame is the maximum size of a WebSocket message, in bytes.
const MaxFrame = 256 << 10

// FrameType is the type of a text frame, the field "type" of its JSON object.
type FrameType string

// Frame is the content of a text frame. The type is not one of its fields: EncodeFrame writes it.
type Frame interface {
	Type() FrameType
}

// EncodeFrame returns the JSON of a text frame.
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

// TypeOf returns the type of a text frame. It does not validate the rest of the frame: Decode does. The error, if any, is
// an *Error.
func TypeOf(text []byte) (FrameType, error) {
	if rest, ok := bytes.CutPrefix(text, []byte(`{"type":"`)); ok { // the fast path: type comes first, as EncodeFrame writes it
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
		return "", Invalid("type", "is required: it names the type of the message")
	}
	return head.Type, nil
}

// CloseCode is the status code with which a WebSocket is closed. After a code from 4400 to 4499, and after a frame that the
// protocol does not allow, a client must change something before it connects again; after any other it should reconnect with a
// jittered backoff.
type CloseCode int

// The close codes. An error frame with the details precedes the close.
const (
	CloseNormal         CloseCode = 1000
	CloseProtocolError  CloseCode = 1002
	CloseInvalidPayload CloseCode = 1007
	CloseBadMessage     CloseCode = 4400
	CloseUnauthorized   CloseCode = 4401
	CloseForbidden      CloseCode = 4403
	CloseNotFound       CloseCode = 4404
	CloseIdle           CloseCode = 4408
	CloseReplaced       CloseCode = 4409
	CloseEnded          CloseCode = 4410
	CloseTooLarge       CloseCode = 4413
	CloseTooFast        CloseCode = 4429
	CloseInternal       CloseCode = 4500
	CloseDraining       CloseCode = 4503
	CloseSlow           CloseCode = 4504
	CloseNameInUse      CloseCode = 4509
	CloseOverloaded     CloseCode = 4529
)

// Retry reports whether to reconnect, with a jittered backoff.
func (c CloseCode) Retry() bool {
	return (c < 4400 || c >= 4500) && c != CloseProtocolError && c != CloseInvalidPayload
}

// ErrorFrame reports an error. If it names an utterance, the utterance ended with it, and the frame is durable and has a
// seq; otherwise it is about the message that it answers, or about the connection.
type ErrorFrame struct {
	Error
	Seq            int64  `json:"seq,omitempty" doc:"The position among the durable messages of the session."`
	Fatal          bool   `json:"fatal,omitempty" doc:"The connection is closed after this frame."`
	ReplyTo        string `json:"reply_to,omitempty" doc:"The type of the message that this answers."`
	RequestID      string `json:"request_id,omitempty"`
	UtteranceID    string `json:"utterance_id,omitempty"`
	UtteranceIndex *int64 `json:"utterance_index,omitempty" doc:"The utterance that ended with this error, counted from 0."`
	Continues      *int64 `json:"continues,omitempty" doc:"As in utterance_committed."`
	FirstSeq       int64  `json:"first_seq,omitempty" doc:"The utterance's first audio frame."`
	LastSeq        int64  `json:"last_seq,omitempty" doc:"The utterance's last audio frame. It and those before it are not needed any more."`
	Reason         string `json:"reason,omitempty" doc:"Why the utterance's job ended."`
}

// Type implements Frame.
func (ErrorFrame) Type() FrameType { return "error" }

// WarningCode is the stable name of a warning.
type WarningCode string

// The warnings of a session.
const (
	LateAudio        WarningCode = "LATE_AUDIO"
	DuplicateRequest WarningCode = "DUPLICATE_REQUEST"
	SpeechLost       WarningCode = "SPEECH_LOST"
	TokenExpired     WarningCode = "TOKEN_EXPIRED"
)

// Warning reports that a part of a message was ignored, or that something that was promised does not come.
type Warning struct {
	Code   WarningCode `json:"code" doc:"A stable name of the warning."`
	Detail string      `json:"detail" doc:"A sentence for people."`
	JobID  string      `json:"job_id,omitempty" doc:"The job that it is about, if it is about one."`
}

// Type implements Frame.
func (Warning) Type() FrameType { return "warning" }

// Keepalive shows that its sender is there. A client of a session sends it so that the session does not count as idle; the scheduler sends
// it when there is no other message, over a connection whose first message asked for it with keepalive_ms.
type Keepalive struct{}

// Type implements Frame.
func (Keepalive) Type() FrameType { return "keepalive" }

// GoAway asks the peer to connect to another instance, because this one is about to stop.
type GoAway struct {
	Reason      string `json:"reason" doc:"A sentence for people."`
	ReconnectMS int64  `json:"reconnect_ms" doc:"The time to reconnect within: leave at a random moment of its first half. In the second half the connection is closed. 0: it is closed at once."`
}

// Type implements Frame.
func (GoAway) Type() FrameType { return "go_away" }
