package node_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// Jobs continue without a connection. After a reconnect the node lists its jobs, repeats acknowledgements and sends the
// results, whether its epoch is resumed or a new one.
func TestJobsSurviveReconnect(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"resumed", "registered"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			s := newFakeScheduler(t)
			cfg := testConfig(s.URL)
			cfg.Slots = 3
			n := startNode(t, cfg, node.FastTiming{})
			p, _ := s.register(defaultAck)
			before, during, after := p.assign("j-1"), p.assign("j-2"), p.assign("j-3")
			byID := map[string]*handlerCall{}
			for range 3 {
				j := n.awaitCall()
				byID[j.ID] = j
			}
			byID["j-1"].finish("one") // not acknowledged
			first := expect[wire.JobResult](p)
			p.drop()
			p = s.awaitConn()
			byID["j-2"].finish("two") // without a connection
			r := expect[wire.NodeRegister](p)
			if r.NodeID != "n-1" || r.ResumeToken != "token-1" || len(r.SemanticLangs) != 2 {
				t.Errorf("registered again with %+v", r)
			}
			listed := map[wire.ActiveJob]bool{}
			for _, a := range r.Active {
				listed[a.ActiveJob] = true
			}
			if diff := cmp.Diff(map[wire.ActiveJob]bool{before: true, during: true, after: true}, listed); diff != "" {
				t.Errorf("active (-want +got):\n%s", diff)
			}
			ack := defaultAck
			ack.Status = status
			p.send(ack)
			confirmed, results := map[wire.ActiveJob]bool{}, map[wire.ActiveJob]string{}
			for len(results) < 2 || !confirmed[after] {
				switch m, _ := p.next(); m.typ {
				case "job_ack":
					confirmed[decode[wire.JobAck](t, m).ActiveJob] = true
				case "job_result":
					r := decode[wire.JobResult](t, m)
					results[r.ActiveJob] = string(r.Result)
				default:
					t.Fatalf("the node sent %q", m.typ)
				}
			}
			want := map[wire.ActiveJob]string{before: string(first.Result), during: `{"text_src":"source","text_tgt":"two"}`}
			if diff := cmp.Diff(want, results); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			byID["j-3"].finish("three")
			if got := expect[wire.JobResult](p); got.ActiveJob != after {
				t.Errorf("result of %v, want %v", got.ActiveJob, after)
			}
		})
	}
}

// A code from 4400 to 4499 ends the node with the error of the scheduler. After any other code it reconnects.
func TestCloseCodes(t *testing.T) {
	t.Parallel()
	for _, code := range []wire.CloseCode{
		wire.CloseBadMessage, wire.CloseUnauthorized, wire.CloseForbidden, wire.CloseNotFound, wire.CloseIdle, wire.CloseReplaced,
		wire.CloseTooLarge, wire.CloseTooFast, wire.CloseInternal, wire.CloseDraining, wire.CloseSlow, wire.CloseNormal, 1001, 1011,
	} {
		for _, when := range []string{"at registration", "later"} {
			t.Run(fmt.Sprint(int(code), " ", when), func(t *testing.T) {
				t.Parallel()
				s := newFakeScheduler(t)
				n := startNode(t, testConfig(s.URL), node.FastTiming{})
				p := s.awaitConn()
				expect[wire.NodeRegister](p)
				var j *handlerCall
				if when == "later" {
					p.send(defaultAck)
					p.assign("j-1")
					j = n.awaitCall()
				}
				p.send(wire.ErrorFrame{Error: *wire.Errorf(wire.Forbidden, "refused"), Fatal: true})
				_ = p.ws.Close(websocket.StatusCode(code), "")
				if code.Retry() {
					s.register(defaultAck)
					if j != nil && j.ctx.Err() != nil {
						t.Error("the job was cancelled")
					}
					return
				}
				err := n.awaitResult()
				var refused *node.RefusedError
				var reported *wire.Error
				if !errors.As(err, &refused) || refused.Code != code || !errors.As(err, &reported) || reported.Detail != "refused" {
					t.Errorf("Run: %v, want the close code and what was reported", err)
				}
				if j != nil && j.ctx.Err() == nil {
					t.Error("the handler was not cancelled")
				}
			})
		}
	}
}

// The HTTP status of a refused handshake decides whether the node retries.
func TestHandshakeStatus(t *testing.T) {
	t.Parallel()
	for status, code := range map[int]wire.CloseCode{
		http.StatusUnauthorized: wire.CloseUnauthorized, http.StatusForbidden: wire.CloseForbidden, http.StatusNotFound: 0,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newFakeScheduler(t)
			s.refuseStatus.Store(int64(status))
			err := startNode(t, testConfig(s.URL), node.FastTiming{}).awaitResult()
			var refused *node.RefusedError
			if err == nil || errors.As(err, &refused) != (code != 0) || refused != nil && refused.Code != code {
				t.Errorf("Run: %v", err)
			}
		})
	}
	for _, status := range []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusOK} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newFakeScheduler(t)
			s.refuseStatus.Store(int64(status))
			startNode(t, testConfig(s.URL), node.FastTiming{})
			for range 3 {
				receive(t, s.refused, "another handshake")
			}
			s.refuseStatus.Store(0)
			s.register(defaultAck)
		})
	}
}

func TestNodeStartsBeforeScheduler(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := startNode(t, testConfig("http://"+l.Addr().String()), node.FastTiming{})
	for range 3 {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	n.stop()
	l.Close() // last: another test may listen at its port
	if err := n.awaitResult(); err != nil {
		t.Errorf("Run: %v, want nil after the end of its context", err)
	}
}

// A WebSocket server that does not speak the subprotocol is not a scheduler.
func TestServerWithoutSubprotocol(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	s.mux.HandleFunc("/other/ws/node", func(w http.ResponseWriter, r *http.Request) {
		if conn, err := websocket.Accept(w, r, nil); err == nil {
			_, _, _ = conn.Read(r.Context())
			_ = conn.CloseNow()
		}
	})
	if err := startNode(t, testConfig(s.URL+"/other"), node.FastTiming{}).awaitResult(); err == nil {
		t.Error("Run: nil, want an error")
	}
}

// singleWriteConn is a connection on which every write after the first fails.
type singleWriteConn struct {
	net.Conn
	writes atomic.Int64
}

// Write implements net.Conn.
func (m *singleWriteConn) Write(b []byte) (int, error) {
	if m.writes.Add(1) > 1 {
		return 0, errors.New("writes are blocked")
	}
	return m.Conn.Write(b)
}

// The scheduler may close the connection before it reads anything. Its error must still reach the caller.
func TestRefusedBeforeRegistrationIsRead(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &singleWriteConn{Conn: conn}, err
	}}
	defer transport.CloseIdleConnections()
	cfg.HTTPClient = &http.Client{Transport: transport}
	n := startNode(t, cfg, node.FastTiming{})
	p := s.awaitConn()
	p.send(wire.ErrorFrame{Error: *wire.Errorf(wire.Unauthorized, "unknown node"), Fatal: true})
	_ = p.ws.Close(websocket.StatusCode(wire.CloseUnauthorized), "")
	var refused *node.RefusedError
	if err := n.awaitResult(); !errors.As(err, &refused) || refused.Err == nil {
		t.Errorf("Run: %v", err)
	}
}

// The scheduler may handle a registration whose answer was lost after the next one, and then close the next one. That must
// not end the node.
func TestReplacedByOwnRegistration(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n := startNode(t, testConfig(s.URL), node.FastTiming{})
	p := s.awaitConn()
	expect[wire.NodeRegister](p)
	p.drop() // the registration may still be on its way
	p, _ = s.register(defaultAck)
	_ = p.ws.Close(websocket.StatusCode(wire.CloseReplaced), "")
	p, _ = s.register(defaultAck)
	_ = p.ws.Close(websocket.StatusCode(wire.CloseReplaced), "") // this time by another process
	var refused *node.RefusedError
	if err := n.awaitResult(); !errors.As(err, &refused) {
		t.Errorf("Run: %v", err)
	}
}

// A scheduler that promised keepalives and sends nothing is gone. The node asks for them, and does not wait for the heartbeat interval.
func TestMissingKeepalivesReconnect(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	ack := defaultAck
	ack.KeepaliveMS = 20
	startNode(t, testConfig(s.URL), node.FastTiming{})
	for range 3 {
		if _, r := s.register(ack); r.KeepaliveMS != 1500 {
			t.Errorf("the node asks for %d ms", r.KeepaliveMS)
		}
	}
}

// TestSilence: what arrives restarts the time after which the scheduler is gone.
func TestSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keepalive = 1500 * time.Millisecond
		for _, last := range []time.Duration{0, time.Second, 20 * time.Second, 33 * time.Second} {
			var arrivals []time.Duration
			for at := last; at > 0; at -= 3 * time.Second { // one keepalive is missing each time
				arrivals = append(arrivals, at)
			}
			after, err := node.AwaitSilence(t.Context(), keepalive, arrivals...)
			if silent := after - last; silent < 2*keepalive || silent > 3*keepalive || err == nil {
				t.Errorf("something arrived until %v: the connection ended after %v: %v", last, after, err)
			}
		}
	})
}

// The peer vanished without closing the connection. The scheduler does not know keepalives.
func TestMissingPongReconnects(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	sockets := make(chan *websocket.Conn, 16)
	s.mux.HandleFunc("/silent/ws/node", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			Subprotocols: []string{wire.Subprotocol}, OnPingReceived: func(context.Context, []byte) bool { return false },
		})
		if err != nil {
			return
		}
		defer conn.CloseNow()
		ack := defaultAck
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
	startNode(t, testConfig(s.URL+"/silent"), node.FastTiming{PongTimeout: 50 * time.Millisecond})
	for range 3 {
		receive(t, sockets, "a new connection")
	}
}
