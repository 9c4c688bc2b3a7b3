package node_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestGarbage: what cannot be read, or is not known, is left aside.
func TestGarbage(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	b := start(t, basic(s.URL), node.Quick{})
	p := s.connection()
	expect[wire.NodeRegister](p)
	garbage := []string{
		``, `{`, `null`, `[]`, `"x"`, `{}`, `{"type":7}`, `{"type":"never_heard_of"}`, `{"type":"job_assign"}`,
		`{"type":"job_assign","job_id":7}`, `{"type":"job_result_ack","accepted":"yes"}`, `{"type":"job_cancel","attempt_id":"x"}`,
		`{"type":"go_away","reconnect_ms":"soon"}`, `{"type":"drain","drained":1}`, `{"type":"error","error":[]}`, `{"type":"warning","code":1}`,
		strings.Repeat("[", 100),
	}
	for _, text := range garbage {
		p.write(websocket.MessageText, []byte(text))
	}
	p.write(websocket.MessageBinary, []byte{0, 0})
	p.send(anyAck)
	for _, text := range append(garbage, `{"type":"node_register_ack","epoch":"x"}`) {
		p.write(websocket.MessageText, []byte(text))
	}
	for _, frame := range []string{"", "\x00", "\x00\x00\xff\xff", "\x00\x00\x00\x02{}", "\xff\xff\xff\xff{}"} {
		p.write(websocket.MessageBinary, []byte(frame))
	}
	p.audio(wire.ActiveJob{JobID: "nobody's", AttemptID: 1}, 0, "x", true)
	p.send(wire.Drain{Drained: true})
	p.send(wire.Warning{Code: "X", Detail: "y"})
	p.send(wire.ErrorFrame{Error: *wire.Errorf(wire.InvalidRequest, "so what")})
	p.acknowledge(wire.ActiveJob{JobID: "nobody's", AttemptID: 1})
	p.send(wire.Drain{})
	p.assign("j-1")
	b.next().done("hola")
	expect[wire.JobResult](p)
}

// TestTooLarge: the scheduler sends more than it may. The node comes back.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	start(t, basic(s.URL), node.Quick{})
	p, _ := s.registered(anyAck)
	_ = p.conn.Write(context.Background(), websocket.MessageText, make([]byte, wire.MaxFrame+1))
	s.registered(anyAck)
}

// TestSilence: the other end vanished without a word. Nothing would ever come, so the node asks, and connects anew.
func TestSilence(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	sockets := make(chan *websocket.Conn, 16)
	s.mux.HandleFunc("/silent/ws/node", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			Subprotocols: []string{wire.Subprotocol}, OnPingReceived: func(context.Context, []byte) bool { return false },
		})
		if err != nil {
			return
		}
		defer conn.CloseNow()
		ack := anyAck
		ack.HeartbeatIntervalMS = 10
		text, _ := wire.EncodeFrame(ack)
		if conn.Write(r.Context(), websocket.MessageText, text) != nil {
			return
		}
		sockets <- conn
		for err == nil {
			_, _, err = conn.Read(r.Context())
		}
	})
	start(t, basic(s.URL+"/silent"), node.Quick{Pong: 50 * time.Millisecond})
	for range 3 {
		receive(t, sockets, "another connection")
	}
}

// TestNothingIsGivenAway: what people said, tokens and permissions are in no log.
func TestNothingIsGivenAway(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	var out logs
	cfg := basic(s.URL)
	cfg.Token = "secret-node-token"
	cfg.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b := serve(t, cfg, node.Quick{}, func(_ context.Context, job *node.Job) (node.Result, error) {
		job.Partial(node.Partial{TextSrc: "secret-partial"})
		switch job.ID {
		case "panics":
			panic("secret-panic")
		case "panics with an error":
			panic(errors.New("secret-error"))
		case "too large":
			return node.Result{TextTgt: "secret-large" + strings.Repeat("x", wire.MaxFrame)}, nil
		}
		return node.Result{TextSrc: "secret-src", TextTgt: "secret-tgt", Speech: []byte("secret-speech")}, nil
	})
	ack := anyAck
	ack.ResumeToken = "secret-resume-token"
	p, _ := s.registered(ack)
	for _, id := range []string{"panics", "panics with an error", "too large", "done"} {
		p.send(wire.JobAssign{JobID: id, AttemptID: 1, Partials: true, TTSUpload: "http://127.0.0.1:1/?sig=secret-upload"})
		expect[wire.JobAck](p)
		expect[wire.JobPartial](p)
		p.next()
		p.acknowledge(wire.ActiveJob{JobID: id, AttemptID: 1})
	}
	p.write(websocket.MessageText, []byte(`{"type":"job_assign","job_id":"secret-garbage`))
	p.write(websocket.MessageText, []byte(`{"type":"job_assign","job_id":["secret-garbage"]}`))
	p.cut()
	p, _ = s.registered(ack)
	_ = p.conn.Close(websocket.StatusCode(wire.CloseUnauthorized), "")
	if err := b.over(); strings.Contains(err.Error(), "secret") {
		t.Errorf("Run: %v", err)
	}
	if got := out.String(); strings.Contains(got, "secret") || !strings.Contains(got, "panicked") {
		t.Errorf("the log says\n%s", got)
	}
}

// logs collects what many write.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
