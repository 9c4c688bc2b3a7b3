package node_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestInvalidMessagesAreIgnored(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n := startNode(t, testConfig(s.URL), node.FastTiming{})
	p := s.awaitConn()
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
	p.send(defaultAck)
	for _, text := range append(garbage, `{"type":"node_register_ack","epoch":"x"}`) {
		p.write(websocket.MessageText, []byte(text))
	}
	for _, frame := range []string{"", "\x00", "\x00\x00\xff\xff", "\x00\x00\x00\x02{}", "\xff\xff\xff\xff{}"} {
		p.write(websocket.MessageBinary, []byte(frame))
	}
	p.sendAudio(wire.ActiveJob{JobID: "unknown", AttemptID: 1}, 0, "x", true)
	p.send(wire.Drain{Drained: true})
	p.send(wire.Warning{Code: "X", Detail: "y"})
	p.send(wire.ErrorFrame{Error: *wire.Errorf(wire.InvalidRequest, "invalid")})
	p.acknowledge(wire.ActiveJob{JobID: "unknown", AttemptID: 1})
	p.send(wire.Drain{})
	p.assign("j-1")
	n.awaitCall().finish("hola")
	expect[wire.JobResult](p)
}

func TestTooLargeMessageReconnects(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNode(t, testConfig(s.URL), node.FastTiming{})
	p, _ := s.register(defaultAck)
	_ = p.ws.Write(context.Background(), websocket.MessageText, make([]byte, wire.MaxFrame+1))
	s.register(defaultAck)
}

// Transcripts, tokens and signed URLs must not be logged.
func TestLogsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	var out logBuffer
	cfg := testConfig(s.URL)
	cfg.Token = "secret-node-token"
	cfg.Log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	n := startNodeWith(t, cfg, node.FastTiming{}, func(_ context.Context, job *node.Job) (node.Result, error) {
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
	ack := defaultAck
	ack.ResumeToken = "secret-resume-token"
	p, _ := s.register(ack)
	for _, id := range []string{"panics", "panics with an error", "too large", "done"} {
		p.send(wire.JobAssign{JobID: id, AttemptID: 1, Partials: true, TTSUpload: "http://127.0.0.1:1/?sig=secret-upload"})
		expect[wire.JobAck](p)
		expect[wire.JobPartial](p)
		p.next()
		p.acknowledge(wire.ActiveJob{JobID: id, AttemptID: 1})
	}
	p.write(websocket.MessageText, []byte(`{"type":"job_assign","job_id":"secret-garbage`))
	p.write(websocket.MessageText, []byte(`{"type":"job_assign","job_id":["secret-garbage"]}`))
	p.drop()
	p, _ = s.register(ack)
	_ = p.ws.Close(websocket.StatusCode(wire.CloseUnauthorized), "")
	if err := n.awaitResult(); strings.Contains(err.Error(), "secret") {
		t.Errorf("Run: %v", err)
	}
	if got := out.String(); strings.Contains(got, "secret") || !strings.Contains(got, "panicked") {
		t.Errorf("the log is\n%s", got)
	}
}

// logBuffer collects log output of several goroutines.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
