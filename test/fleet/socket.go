package fleet

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// Socket is a WebSocket of a node or a session without the packages node and client: it sends and reads single frames, and does nothing by
// itself.
type Socket struct {
	*websocket.Conn
	tb testing.TB
}

// Connect opens a WebSocket at a path of a scheduler until the end of the test, with a token unless that is empty.
func Connect(tb testing.TB, url, path, token string) *Socket {
	tb.Helper()
	o := &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}}
	if token != "" {
		o.HTTPHeader = http.Header{"Authorization": {"Bearer " + token}}
	}
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, url+path, o) //nolint:bodyclose // the library closes it
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ws.CloseNow() })
	ws.SetReadLimit(-1)
	return &Socket{ws, tb}
}

// Send sends a frame, or any other value as JSON.
func (s *Socket) Send(message any) {
	s.tb.Helper()
	encode := json.Marshal
	if f, ok := message.(wire.Frame); ok {
		encode = func(any) ([]byte, error) { return wire.EncodeFrame(f) }
	}
	text, err := encode(message)
	if err == nil {
		err = s.Write(s.tb.Context(), websocket.MessageText, text)
	}
	if err != nil {
		s.tb.Fatal(err)
	}
}

// Await reads until a frame of the type of into comes.
func (s *Socket) Await(into wire.Frame) {
	s.tb.Helper()
	for {
		_, text, err := s.Read(s.tb.Context())
		if err != nil {
			s.tb.Fatalf("waiting for %s: %v", into.Type(), err)
		}
		if typ, err := wire.TypeOf(text); err == nil && typ == into.Type() {
			if err := wire.Decode(text, into); err != nil {
				s.tb.Fatal(err)
			}
			return
		}
	}
}
