package node_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestMain checks that no node leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// timeout is how long a test waits for an expected event.
const timeout = 20 * time.Second

// fakeScheduler accepts connections of nodes. It sends only what a test tells it to.
type fakeScheduler struct {
	t            *testing.T
	URL          string
	mux          *http.ServeMux
	conns        chan *nodeConn
	refuseStatus atomic.Int64  // an HTTP status with which handshakes are refused; 0: none are
	refused      chan struct{} // receives when a handshake was refused

	mu  sync.Mutex
	all []*nodeConn
}

// nodeConn is one connection of a node, seen from the scheduler.
type nodeConn struct {
	t        *testing.T
	ws       *websocket.Conn
	header   http.Header
	messages chan message
	done     chan struct{}
	err      error // why it ended; read after done
}

// message is a message of a node.
type message struct {
	typ    wire.FrameType // empty: a binary frame
	text   []byte
	header wire.BinaryHeader
	data   []byte
}

func newFakeScheduler(t *testing.T) *fakeScheduler {
	t.Helper()
	s := &fakeScheduler{t: t, mux: http.NewServeMux(), conns: make(chan *nodeConn, 16), refused: make(chan struct{}, 1)}
	s.mux.HandleFunc("/ws/node", s.accept)
	srv := httptest.NewServer(s.mux)
	s.URL = srv.URL
	t.Cleanup(func() {
		s.mu.Lock()
		all := s.all
		s.mu.Unlock()
		for _, p := range all {
			_ = p.ws.CloseNow()
			<-p.done
		}
		srv.Close()
	})
	return s
}

func (s *fakeScheduler) accept(w http.ResponseWriter, r *http.Request) {
	if status := s.refuseStatus.Load(); status != 0 {
		select {
		case s.refused <- struct{}{}:
		default:
		}
		w.WriteHeader(int(status))
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		return
	}
	conn.SetReadLimit(wire.MaxFrame)
	p := &nodeConn{t: s.t, ws: conn, header: r.Header, messages: make(chan message, 4096), done: make(chan struct{})}
	s.mu.Lock()
	s.all = append(s.all, p)
	s.mu.Unlock()
	go p.readLoop()
	s.conns <- p
}

func (p *nodeConn) readLoop() {
	defer close(p.done)
	defer close(p.messages)
	for {
		kind, data, err := p.ws.Read(context.Background())
		if err != nil {
			p.err = err
			return
		}
		m := message{text: data}
		if kind == websocket.MessageBinary {
			m.header, m.data, err = wire.ReadBinary(data)
		} else {
			m.typ, err = wire.TypeOf(data)
		}
		if err != nil {
			p.t.Errorf("the node sent an invalid message: %v", err)
			continue
		}
		p.messages <- m
	}
}

// awaitConn waits for the node to connect.
func (s *fakeScheduler) awaitConn() *nodeConn {
	s.t.Helper()
	return receive(s.t, s.conns, "a connection")
}

// register waits for the node to connect and acknowledges its registration.
func (s *fakeScheduler) register(ack wire.NodeRegisterAck) (*nodeConn, wire.NodeRegister) {
	s.t.Helper()
	p := s.awaitConn()
	r := expect[wire.NodeRegister](p)
	p.send(ack)
	return p, r
}

// defaultAck acknowledges a registration, with so long an interval that a test sees no heartbeats.
var defaultAck = wire.NodeRegisterAck{NodeID: "n-1", Epoch: 7, ResumeToken: "token-1", HeartbeatIntervalMS: 60_000, Status: "registered"}

func (p *nodeConn) send(f wire.Frame) {
	p.t.Helper()
	text, err := wire.EncodeFrame(f)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(websocket.MessageText, text)
}

func (p *nodeConn) write(kind websocket.MessageType, data []byte) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := p.ws.Write(ctx, kind, data); err != nil {
		p.t.Fatalf("write to the node: %v", err)
	}
}

func (p *nodeConn) sendAudio(key wire.ActiveJob, chunk int, data string, last bool) {
	p.t.Helper()
	frame, err := wire.AppendBinary(nil, &wire.BinaryHeader{Kind: wire.KindAudio, ActiveJob: key, Chunk: chunk, Last: last}, []byte(data))
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(websocket.MessageBinary, frame)
}

// assign sends a job to the node and waits for its acknowledgement.
func (p *nodeConn) assign(id string) wire.ActiveJob {
	p.t.Helper()
	key := wire.ActiveJob{JobID: id, AttemptID: 1}
	p.send(wire.JobAssign{JobID: id, AttemptID: 1, TimeoutMS: 60_000, Partials: true})
	p.expectAck(key)
	return key
}

func (p *nodeConn) expectAck(key wire.ActiveJob) {
	p.t.Helper()
	if got := expect[wire.JobAck](p); got.ActiveJob != key {
		p.t.Fatalf("acknowledged %v, want %v", got.ActiveJob, key)
	}
}

func (p *nodeConn) acknowledge(key wire.ActiveJob) {
	p.t.Helper()
	p.send(wire.JobResultAck{ActiveJob: key, Accepted: true})
}

// drop closes the connection without a close frame.
func (p *nodeConn) drop() {
	_ = p.ws.CloseNow()
	<-p.done
}

// next returns the next message that is not a heartbeat. ok is false if the connection has ended.
func (p *nodeConn) next() (message, bool) {
	p.t.Helper()
	timeout := time.After(timeout)
	for {
		select {
		case m, ok := <-p.messages:
			if ok && m.typ == (wire.NodeHeartbeat{}).Type() {
				continue
			}
			return m, ok
		case <-timeout:
			p.t.Fatal("the node sent nothing")
		}
	}
}

// heartbeat waits for a heartbeat and skips other messages.
func (p *nodeConn) heartbeat() wire.NodeHeartbeat {
	p.t.Helper()
	for {
		m := receive(p.t, p.messages, "a heartbeat")
		if m.typ == (wire.NodeHeartbeat{}).Type() {
			return decode[wire.NodeHeartbeat](p.t, m)
		}
	}
}

// expect waits for the next message, which must be of the given type. Heartbeats are skipped.
func expect[F wire.Frame](p *nodeConn) F {
	p.t.Helper()
	var f F
	m, ok := p.next()
	if !ok {
		p.t.Fatalf("the node closed the connection, want %s: %v", f.Type(), p.err)
	}
	if m.typ != f.Type() {
		p.t.Fatalf("the node sent %q %s, want %s", m.typ, m.text, f.Type())
	}
	return decode[F](p.t, m)
}

func decode[F any](t *testing.T, m message) F {
	t.Helper()
	var f F
	if err := json.Unmarshal(m.text, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v, ok := <-from:
		if !ok {
			t.Fatalf("%s is impossible: the channel is closed", what)
		}
		return v
	case <-time.After(timeout):
		t.Fatalf("%s was awaited in vain", what)
	}
	panic("unreachable")
}

// echoAudio is a handler that reads the audio twice and returns it as text.
func echoAudio(ctx context.Context, job *node.Job) (node.Result, error) {
	audio, err := job.Audio(ctx)
	if err != nil {
		return node.Result{}, err
	}
	again, err := job.Audio(ctx)
	return node.Result{TextSrc: string(audio), TextTgt: string(again)}, err
}

func expectEcho(t *testing.T, p *nodeConn, what string) {
	t.Helper()
	want := `{"text_src":"` + what + `","text_tgt":"` + what + `"}`
	if got := string(expect[wire.JobResult](p).Result); got != want {
		t.Errorf("result %s, want %s", got, want)
	}
}

// testNode is a node that runs during a test.
type testNode struct {
	t      *testing.T
	calls  chan *handlerCall
	stop   context.CancelFunc
	result chan error
}

// handlerCall is one call of the handler. The handler returns what the test sends to reply, or when its context ends.
type handlerCall struct {
	*node.Job
	ctx   context.Context
	reply chan reply
}

type reply struct {
	node.Result
	err error
}

func testConfig(url string) node.Config {
	return node.Config{
		URL: url, Slots: 2, Log: slog.New(slog.DiscardHandler),
		Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}},
	}
}

// startNode runs a node whose handler calls are answered by the test.
func startNode(t *testing.T, cfg node.Config, timing node.FastTiming) *testNode {
	t.Helper()
	n := &testNode{t: t, calls: make(chan *handlerCall, 64)}
	n.run(cfg, timing, func(ctx context.Context, job *node.Job) (node.Result, error) {
		call := &handlerCall{Job: job, ctx: ctx, reply: make(chan reply, 1)}
		n.calls <- call
		select {
		case r := <-call.reply:
			return r.Result, r.err
		case <-ctx.Done():
			return node.Result{}, ctx.Err()
		}
	})
	return n
}

// startNodeWith runs a node with a handler.
func startNodeWith(t *testing.T, cfg node.Config, timing node.FastTiming, h node.Handler) *testNode {
	t.Helper()
	n := &testNode{t: t}
	n.run(cfg, timing, h)
	return n
}

func (n *testNode) run(cfg node.Config, timing node.FastTiming, h node.Handler) {
	ctx, stop := context.WithCancel(context.Background())
	n.stop, n.result = stop, make(chan error, 1)
	if cfg.ShutdownTimeout == 0 {
		cfg.ShutdownTimeout = 1 // a test that has ended does not wait for its jobs
	}
	if timing.StopTimeout == 0 {
		timing.StopTimeout = 200 * time.Millisecond
	}
	if timing.ResendAfter == 0 {
		timing.ResendAfter = timeout // on a slow machine a resend would come between the messages that a test expects
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		n.result <- timing.Run(ctx, cfg, h)
	}()
	n.t.Cleanup(func() {
		stop()
		<-finished
	})
}

// awaitCall waits for the handler to be called.
func (n *testNode) awaitCall() *handlerCall {
	n.t.Helper()
	return receive(n.t, n.calls, "a call of the handler")
}

// awaitResult waits for Run to return.
func (n *testNode) awaitResult() error {
	n.t.Helper()
	return receive(n.t, n.result, "the end of Run")
}

func (c *handlerCall) finish(text string) {
	c.reply <- reply{Result: node.Result{TextSrc: "source", TextTgt: text}}
}

// awaitClose returns a channel that receives when a connection has ended.
func awaitClose(p *nodeConn) <-chan struct{} {
	c := make(chan struct{}, 1)
	go func() {
		<-p.done
		c <- struct{}{}
	}()
	return c
}

// respondEcho is the simplest handler.
func respondEcho(context.Context, *node.Job) (node.Result, error) {
	return node.Result{TextTgt: "echo"}, nil
}

func failWith(err error) node.Handler {
	return func(context.Context, *node.Job) (node.Result, error) { return node.Result{}, err }
}

func respondWith(r node.Result) node.Handler {
	return func(context.Context, *node.Job) (node.Result, error) { return r, nil }
}

func waitForCancel(ctx context.Context, _ *node.Job) (node.Result, error) {
	<-ctx.Done()
	return node.Result{}, ctx.Err()
}

// sync waits until the node has read everything that was sent to it.
func (p *nodeConn) sync() {
	p.t.Helper()
	p.send(wire.JobCancel{ActiveJob: wire.ActiveJob{JobID: "mark"}})
	expect[wire.JobCancelled](p)
}
