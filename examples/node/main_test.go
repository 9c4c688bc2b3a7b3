package main_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// The program executes one job of a fake scheduler, and stops at an interrupt.
func TestNodeExecutesJob(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(source, []byte("\n")); lines >= 30 {
		t.Errorf("the example has %d lines, want fewer than 30", lines)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	program := filepath.Join(t.TempDir(), "node")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}

	exchanges := make(chan exchange, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { exchanges <- serveNode(ctx, w, r) }))
	defer srv.Close()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "LINGUA_URL="+srv.URL, "LINGUA_TOKEN=token"), &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	got := <-exchanges
	if got.err != nil {
		t.Fatal(got.err)
	}
	if want := `{"text_src":"5 bytes of en","text_tgt":"5 BYTES OF EN"}`; got.path != "/ws/node" || got.token != "Bearer token" || got.result != want {
		t.Errorf("path %s, token %q, result %s; want %s", got.path, got.token, got.result, want)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	for got.err == nil {
		_, _, got.err = got.conn.Read(ctx)
	}
	if websocket.CloseStatus(got.err) != websocket.StatusNormalClosure {
		t.Errorf("the connection ended with %v, want 1000", got.err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program: %v\n%s", err, out.Bytes())
	}
}

// exchange is what the scheduler received from the node.
type exchange struct {
	conn                *websocket.Conn
	path, token, result string
	err                 error
}

// serveNode registers the node, assigns a job with audio, and acknowledges the result.
func serveNode(ctx context.Context, w http.ResponseWriter, r *http.Request) exchange {
	e := exchange{path: r.URL.Path, token: r.Header.Get("Authorization")}
	if e.conn, e.err = websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}}); e.err != nil {
		return e
	}
	job := wire.ActiveJob{JobID: "j-1", AttemptID: 1}
	e.read(ctx, &wire.NodeRegister{})
	e.send(ctx, wire.NodeRegisterAck{NodeID: "n-1", Epoch: 1, ResumeToken: "r", HeartbeatIntervalMS: 60_000, Status: "registered"})
	e.send(ctx, wire.JobAssign{JobID: job.JobID, AttemptID: 1, SrcLang: "en", TgtLang: "es", TimeoutMS: 60_000, Audio: &wire.Audio{Bytes: 5}})
	if frame, err := wire.AppendBinary(nil, &wire.BinaryHeader{Kind: wire.KindAudio, ActiveJob: job, Last: true}, []byte("audio")); err == nil && e.err == nil {
		e.err = e.conn.Write(ctx, websocket.MessageBinary, frame)
	}
	e.read(ctx, &wire.JobAck{})
	var result wire.JobResult
	e.read(ctx, &result)
	e.result = string(result.Result)
	e.send(ctx, wire.JobResultAck{ActiveJob: job, Accepted: true})
	return e
}

func (e *exchange) read(ctx context.Context, f wire.Frame) {
	var text []byte
	if e.err == nil {
		_, text, e.err = e.conn.Read(ctx)
	}
	if e.err != nil {
		return
	}
	if got, err := wire.TypeOf(text); err != nil || got != f.Type() {
		e.err = wire.Errorf(wire.InvalidRequest, "got %s, want %s", text, f.Type())
		return
	}
	e.err = wire.Decode(text, f)
}

func (e *exchange) send(ctx context.Context, f wire.Frame) {
	text, err := wire.EncodeFrame(f)
	if e.err == nil {
		e.err = err
	}
	if e.err == nil {
		e.err = e.conn.Write(ctx, websocket.MessageText, text)
	}
}
