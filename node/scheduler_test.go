package node_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// scheduler is one that does nothing by itself: a test says what it answers.
type scheduler struct {
	t      *testing.T
	URL    string
	mux    *http.ServeMux
	peers  chan *peer
	refuse atomic.Int64  // the status to answer with in place of a socket
	asked  chan struct{} // a socket was asked for, and refused

	mu  sync.Mutex
	all []*peer
}

// peer is one connection of a node, seen from the scheduler.
type peer struct {
	t      *testing.T
	conn   *websocket.Conn
	header http.Header
	in     chan message
	done   chan struct{}
	err    error // why it ended; read after done
}

// message is what a node sent.
type message struct {
	typ    wire.FrameType // empty: a binary frame
	text   []byte
	header wire.BinaryHeader
	data   []byte
}

func newScheduler(t *testing.T) *scheduler {
	t.Helper()
	s := &scheduler{t: t, mux: http.NewServeMux(), peers: make(chan *peer, 16), asked: make(chan struct{}, 1)}
	s.mux.HandleFunc("/ws/node", s.accept)
	srv := httptest.NewServer(s.mux)
	s.URL = srv.URL
	t.Cleanup(func() {
		s.mu.Lock()
		all := s.all
		s.mu.Unlock()
		for _, p := range all {
			_ = p.conn.CloseNow()
			<-p.done
		}
		srv.Close()
	})
	return s
}

func (s *scheduler) accept(w http.ResponseWriter, r *http.Request) {
	if status := s.refuse.Load(); status != 0 {
		select {
		case s.asked <- struct{}{}:
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
	p := &peer{t: s.t, conn: conn, header: r.Header, in: make(chan message, 4096), done: make(chan struct{})}
	s.mu.Lock()
	s.all = append(s.all, p)
	s.mu.Unlock()
	go p.read()
	s.peers <- p
}

func (p *peer) read() {
	defer close(p.done)
	defer close(p.in)
	for {
		kind, data, err := p.conn.Read(context.Background())
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
			p.t.Errorf("the node sent what cannot be read: %v", err)
			continue
		}
		p.in <- m
	}
}

// connection waits for the node to connect.
func (s *scheduler) connection() *peer {
	s.t.Helper()
	return receive(s.t, s.peers, "a connection")
}

// registered waits for the node to connect and registers it.
func (s *scheduler) registered(ack wire.NodeRegisterAck) (*peer, wire.NodeRegister) {
	s.t.Helper()
	p := s.connection()
	r := expect[wire.NodeRegister](p)
	p.send(ack)
	return p, r
}

// anyAck is a registration that leaves the node in peace.
var anyAck = wire.NodeRegisterAck{NodeID: "n-1", Epoch: 7, ResumeToken: "token-1", HeartbeatIntervalMS: 60_000, Status: "registered"}

func (p *peer) send(f wire.Frame) {
	p.t.Helper()
	text, err := wire.EncodeFrame(f)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(websocket.MessageText, text)
}

func (p *peer) write(kind websocket.MessageType, data []byte) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.conn.Write(ctx, kind, data); err != nil {
		p.t.Fatalf("write to the node: %v", err)
	}
}

func (p *peer) audio(key wire.ActiveJob, chunk int, data string, last bool) {
	p.t.Helper()
	frame, err := wire.AppendBinary(nil, &wire.BinaryHeader{Kind: wire.KindAudio, ActiveJob: key, Chunk: chunk, Last: last}, []byte(data))
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(websocket.MessageBinary, frame)
}

// assign gives the node a job and waits until it is confirmed.
func (p *peer) assign(id string) wire.ActiveJob {
	p.t.Helper()
	key := wire.ActiveJob{JobID: id, AttemptID: 1}
	p.send(wire.JobAssign{JobID: id, AttemptID: 1, TimeoutMS: 60_000, Partials: true})
	p.confirmed(key)
	return key
}

func (p *peer) confirmed(key wire.ActiveJob) {
	p.t.Helper()
	if got := expect[wire.JobAck](p); got.ActiveJob != key {
		p.t.Fatalf("confirmed was %v, want %v", got.ActiveJob, key)
	}
}

func (p *peer) acknowledge(key wire.ActiveJob) {
	p.t.Helper()
	p.send(wire.JobResultAck{ActiveJob: key, Accepted: true})
}

// cut loses the connection without a word.
func (p *peer) cut() {
	_ = p.conn.CloseNow()
	<-p.done
}

// next returns the next message, heartbeats left out. ok is false when there will be none.
func (p *peer) next() (message, bool) {
	p.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case m, ok := <-p.in:
			if ok && m.typ == (wire.NodeHeartbeat{}).Type() {
				continue
			}
			return m, ok
		case <-timeout:
			p.t.Fatal("the node sent nothing")
		}
	}
}

// heartbeat waits for a heartbeat, whatever else comes.
func (p *peer) heartbeat() wire.NodeHeartbeat {
	p.t.Helper()
	for {
		m := receive(p.t, p.in, "a heartbeat")
		if m.typ == (wire.NodeHeartbeat{}).Type() {
			return decode[wire.NodeHeartbeat](p.t, m)
		}
	}
}

// expect waits for the next message, which must be of the given type. Heartbeats do not count.
func expect[F wire.Frame](p *peer) F {
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
			t.Fatalf("there will be no %s", what)
		}
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
	}
	panic("unreachable")
}
