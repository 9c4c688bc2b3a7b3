package scheduler_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// speaker is a session on a bare socket: it does not leave by itself.
type speaker struct {
	t    *testing.T
	conn *websocket.Conn
}

func speak(t *testing.T, url string, start wire.SessionStart) *speaker {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), strings.Replace(url, "http", "ws", 1)+"/ws/session", &websocket.DialOptions{
		Subprotocols: []string{wire.Subprotocol},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(-1)
	s := &speaker{t, conn}
	s.send(start)
	return s
}

func (s *speaker) send(f wire.Frame) {
	s.t.Helper()
	text, err := wire.EncodeFrame(f)
	if err == nil {
		err = s.conn.Write(s.t.Context(), websocket.MessageText, text)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// await reads until a frame of a type comes.
func (s *speaker) await(into wire.Frame) {
	s.t.Helper()
	for {
		_, body, err := s.conn.Read(s.t.Context())
		if err != nil {
			s.t.Fatalf("waiting for %s: %v", into.Type(), err)
		}
		if typ, err := wire.TypeOf(body); err == nil && typ == into.Type() {
			if err := wire.Decode(body, into); err != nil {
				s.t.Fatal(err)
			}
			return
		}
	}
}

// A session that is still connected when its instance stops is served as usual; new sessions are refused.
func TestSessionIsServedWhileItsInstanceLeaves(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	s := speak(t, r.url, wire.SessionStart{Langs: []string{"en", "zh"}})
	s.await(&wire.SessionStarted{})
	r.stop()
	s.await(&wire.GoAway{})
	s.send(wire.AudioChunk{Data: sound(100), IsFinal: true})
	a := r.delivery()
	r.post(http.StatusOK, "/v1/job/ack", report(a))
	r.post(http.StatusOK, "/v1/job/done", report(a))
	var got wire.SessionResult
	s.await(&got)
	if got.JobID != a.JobID {
		t.Errorf("the result is of %s, want %s", got.JobID, a.JobID)
	}
	late := speak(t, r.url, wire.SessionStart{Langs: []string{"en", "zh"}})
	var e wire.ErrorFrame
	late.await(&e)
	if e.Code != wire.AllCandidatesFullOrFailed || e.RetryAfterMS == 0 {
		t.Errorf("a new session: %+v", e)
	}
	_ = s.conn.CloseNow()
	if err := r.end(); err != nil {
		t.Error(err)
	}
}
