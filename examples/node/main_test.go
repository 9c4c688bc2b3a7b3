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

// TestExample builds the program, runs it against a scheduler that has one job for it, and interrupts it.
func TestExample(t *testing.T) {
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

	told := make(chan conversation, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { told <- converse(ctx, w, r) }))
	defer srv.Close()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "LINGUA_URL="+srv.URL, "LINGUA_TOKEN=token"), &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	got := <-told
	if got.err != nil {
		t.Fatal(got.err)
	}
	if want := `{"text_src":"5 bytes of en","text_tgt":"5 BYTES OF EN"}`; got.path != "/ws/node" || got.token != "Bearer token" || got.result != want {
		t.Errorf("%s with %q: %s, want %s", got.path, got.token, got.result, want)
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

// conversation is how the scheduler and the node got on.
type conversation struct {
	conn                *websocket.Conn
	path, token, result string
	err                 error
}

// converse registers the node, gives it a job with its audio, and acknowledges the result.
func converse(ctx context.Context, w http.ResponseWriter, r *http.Request) conversation {
	c := conversation{path: r.URL.Path, token: r.Header.Get("Authorization")}
	if c.conn, c.err = websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}}); c.err != nil {
		return c
	}
	job := wire.ActiveJob{JobID: "j-1", AttemptID: 1}
	c.read(ctx, &wire.NodeRegister{})
	c.send(ctx, wire.NodeRegisterAck{NodeID: "n-1", Epoch: 1, ResumeToken: "r", HeartbeatIntervalMS: 60_000, Status: "registered"})
	c.send(ctx, wire.JobAssign{JobID: job.JobID, AttemptID: 1, SrcLang: "en", TgtLang: "es", TimeoutMS: 60_000, Audio: &wire.Audio{Bytes: 5}})
	if frame, err := wire.AppendBinary(nil, &wire.BinaryHeader{Kind: wire.KindAudio, ActiveJob: job, Last: true}, []byte("sound")); err == nil && c.err == nil {
		c.err = c.conn.Write(ctx, websocket.MessageBinary, frame)
	}
	c.read(ctx, &wire.JobAck{})
	var result wire.JobResult
	c.read(ctx, &result)
	c.result = string(result.Result)
	c.send(ctx, wire.JobResultAck{ActiveJob: job, Accepted: true})
	return c
}

func (c *conversation) read(ctx context.Context, f wire.Frame) {
	var text []byte
	if c.err == nil {
		_, text, c.err = c.conn.Read(ctx)
	}
	if c.err != nil {
		return
	}
	if got, err := wire.TypeOf(text); err != nil || got != f.Type() {
		c.err = wire.Errorf(wire.InvalidRequest, "got %s, want %s", text, f.Type())
		return
	}
	c.err = wire.Decode(text, f)
}

func (c *conversation) send(ctx context.Context, f wire.Frame) {
	text, err := wire.EncodeFrame(f)
	if c.err == nil {
		c.err = err
	}
	if c.err == nil {
		c.err = c.conn.Write(ctx, websocket.MessageText, text)
	}
}
