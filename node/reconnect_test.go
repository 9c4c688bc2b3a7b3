package node_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestCut: jobs go on while there is no connection. Afterwards the node says what it has, confirms what it may not have
// confirmed, and sends the results, whether its life goes on or a new one began.
func TestCut(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"resumed", "registered"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			s := newScheduler(t)
			cfg := basic(s.URL)
			cfg.Slots = 3
			b := start(t, cfg, node.Quick{})
			p, _ := s.registered(anyAck)
			before, during, after := p.assign("j-1"), p.assign("j-2"), p.assign("j-3")
			byID := map[string]*piece{}
			for range 3 {
				j := b.next()
				byID[j.ID] = j
			}
			byID["j-1"].done("one") // never acknowledged
			first := expect[wire.JobResult](p)
			p.cut()
			p = s.connection()
			byID["j-2"].done("two") // while nothing can be sent
			r := expect[wire.NodeRegister](p)
			if r.NodeID != "n-1" || r.ResumeToken != "token-1" || len(r.SemanticLangs) != 2 {
				t.Errorf("came back with %+v", r)
			}
			listed := map[wire.ActiveJob]bool{}
			for _, a := range r.Active {
				listed[a.ActiveJob] = true
			}
			if diff := cmp.Diff(map[wire.ActiveJob]bool{before: true, during: true, after: true}, listed); diff != "" {
				t.Errorf("active (-want +got):\n%s", diff)
			}
			ack := anyAck
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
			want := map[wire.ActiveJob]string{before: string(first.Result), during: `{"text_src":"heard","text_tgt":"two"}`}
			if diff := cmp.Diff(want, results); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			byID["j-3"].done("three")
			if got := expect[wire.JobResult](p); got.ActiveJob != after {
				t.Errorf("result of %v, want %v", got.ActiveJob, after)
			}
		})
	}
}

// TestResultsAreSentAgain until they are acknowledged.
func TestResultsAreSentAgain(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	b := start(t, basic(s.URL), node.Quick{Resend: 30 * time.Millisecond})
	p, _ := s.registered(anyAck)
	key := p.assign("j-1")
	b.next().done("hola")
	first := expect[wire.JobResult](p)
	for range 3 {
		if diff := cmp.Diff(first, expect[wire.JobResult](p)); diff != "" {
			t.Errorf("sent again (-first +this):\n%s", diff)
		}
	}
	p.acknowledge(key)
	p.send(wire.JobAssign{JobID: "j-2", AttemptID: 1}) // its confirmation comes when the acknowledgement was read
	for {
		if m, _ := p.next(); m.typ == (wire.JobAck{}).Type() {
			break
		}
	}
	b.next().done("adiós")
	for range 4 {
		if got := expect[wire.JobResult](p); got.JobID != "j-2" {
			t.Errorf("the result of %s came after its acknowledgement", got.JobID)
		}
	}
}

// TestResultsAreGivenUp when nobody can want them any more.
func TestResultsAreGivenUp(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	b := start(t, basic(s.URL), node.Quick{Resend: 30 * time.Millisecond, Keep: 100 * time.Millisecond})
	ack := anyAck
	ack.HeartbeatIntervalMS = 20
	p, _ := s.registered(ack)
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1, TimeoutMS: 50})
	b.next().done("hola")
	until := time.Now().Add(patience)
	for seen := false; ; {
		active := p.heartbeat().Active
		if seen = seen || len(active) > 0; seen && len(active) == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("it is kept for ever")
		}
	}
}

// TestCloseCodes: 44xx end the node, with what the scheduler said; after anything else it comes back.
func TestCloseCodes(t *testing.T) {
	t.Parallel()
	for _, code := range []wire.CloseCode{
		wire.CloseBadMessage, wire.CloseUnauthorized, wire.CloseForbidden, wire.CloseNotFound, wire.CloseIdle, wire.CloseReplaced,
		wire.CloseTooLarge, wire.CloseTooFast, wire.CloseInternal, wire.CloseDraining, wire.CloseSlow, wire.CloseNormal, 1001, 1011,
	} {
		for _, when := range []string{"at registration", "later"} {
			t.Run(fmt.Sprint(int(code), " ", when), func(t *testing.T) {
				t.Parallel()
				s := newScheduler(t)
				b := start(t, basic(s.URL), node.Quick{})
				p := s.connection()
				expect[wire.NodeRegister](p)
				var j *piece
				if when == "later" {
					p.send(anyAck)
					p.assign("j-1")
					j = b.next()
				}
				p.send(wire.ErrorFrame{Error: *wire.Errorf(wire.Forbidden, "not like this"), Fatal: true})
				_ = p.conn.Close(websocket.StatusCode(code), "")
				if code.Retry() {
					s.registered(anyAck)
					if j != nil && j.ctx.Err() != nil {
						t.Error("the job was stopped")
					}
					return
				}
				err := b.over()
				var refused *node.RefusedError
				var said *wire.Error
				if !errors.As(err, &refused) || refused.Code != code || !errors.As(err, &said) || said.Detail != "not like this" {
					t.Errorf("Run: %v, want the close code and what was said", err)
				}
				if j != nil && j.ctx.Err() == nil {
					t.Error("the handler goes on")
				}
			})
		}
	}
}

// TestHandshake: what is answered in place of a socket.
func TestHandshake(t *testing.T) {
	t.Parallel()
	for status, code := range map[int]wire.CloseCode{
		http.StatusUnauthorized: wire.CloseUnauthorized, http.StatusForbidden: wire.CloseForbidden, http.StatusNotFound: 0,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newScheduler(t)
			s.refuse.Store(int64(status))
			err := start(t, basic(s.URL), node.Quick{}).over()
			var refused *node.RefusedError
			if err == nil || errors.As(err, &refused) != (code != 0) || refused != nil && refused.Code != code {
				t.Errorf("Run: %v", err)
			}
		})
	}
	for _, status := range []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusOK} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newScheduler(t)
			s.refuse.Store(int64(status))
			start(t, basic(s.URL), node.Quick{})
			for range 3 {
				receive(t, s.asked, "a further try")
			}
			s.refuse.Store(0)
			s.registered(anyAck)
		})
	}
}

// TestNobodyThere: a node may be started before its scheduler.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, basic("http://"+l.Addr().String()), node.Quick{})
	for range 3 {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	l.Close()
	b.stop()
	if err := b.over(); err != nil {
		t.Errorf("Run: %v, want nil after the end of its context", err)
	}
}

// TestNoScheduler: something else answers, and takes the socket.
func TestNoScheduler(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	s.mux.HandleFunc("/other/ws/node", func(w http.ResponseWriter, r *http.Request) {
		if conn, err := websocket.Accept(w, r, nil); err == nil {
			_, _, _ = conn.Read(r.Context())
			_ = conn.CloseNow()
		}
	})
	if err := start(t, basic(s.URL+"/other"), node.Quick{}).over(); err == nil {
		t.Error("Run: nil, want to be told that this is no scheduler")
	}
}
