package node_test

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestEndlessTimes: times that no clock can count do not end the node, and a job with one has a deadline far away.
func TestEndlessTimes(t *testing.T) {
	t.Parallel()
	for _, ms := range []int64{math.MaxInt64, math.MaxInt64 / int64(time.Millisecond), 1 << 62, -1, math.MinInt64} {
		s := newScheduler(t)
		b := start(t, basic(s.URL), node.Quick{})
		ack := anyAck
		ack.HeartbeatIntervalMS = ms
		p, _ := s.registered(ack)
		p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1, TimeoutMS: ms})
		p.confirmed(wire.ActiveJob{JobID: "j-1", AttemptID: 1})
		if j := b.next(); j.ctx.Err() != nil || !j.Deadline.IsZero() && time.Until(j.Deadline) < time.Hour {
			t.Errorf("%d ms: the deadline is %v", ms, j.Deadline)
		}
		if ms > 0 {
			continue
		}
		p.send(wire.GoAway{ReconnectMS: ms})
		s.registered(anyAck)
	}
}

// TestSillyLoad: a load that is no number is unknown, and one out of bounds is at the bound: neither costs the connection.
func TestSillyLoad(t *testing.T) {
	t.Parallel()
	nan, less, more := math.NaN(), -0.5, 1.5
	s := newScheduler(t)
	cfg := basic(s.URL)
	cfg.Load = func() wire.Load { return wire.Load{CPU: &nan, GPU: &less, Memory: &more} }
	start(t, cfg, node.Quick{})
	ack := anyAck
	ack.HeartbeatIntervalMS = 20
	p, _ := s.registered(ack)
	zero, one := 0.0, 1.0
	if diff := cmp.Diff(&wire.Load{GPU: &zero, Memory: &one}, p.heartbeat().CurrentLoad); diff != "" {
		t.Errorf("load (-want +got):\n%s", diff)
	}
}

// TestMisnamed: an answer that names no node, or another, is none. The node keeps its name and comes back.
func TestMisnamed(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	start(t, basic(s.URL), node.Quick{})
	wrong := anyAck
	wrong.NodeID = ""
	s.registered(wrong)
	p, _ := s.registered(anyAck)
	wrong.Epoch, wrong.ResumeToken = 9, "token-9"
	p.send(wrong) // unasked
	wrong.NodeID = "n-2"
	p.send(wrong)
	p.assign("j-1")
	p.cut()
	if _, r := s.registered(wrong); r.NodeID != "n-1" || r.ResumeToken != anyAck.ResumeToken {
		t.Errorf("came back as %q with %q", r.NodeID, r.ResumeToken)
	}
	s.registered(anyAck)
}

// TestTooEarly: a job, its audio and its cancellation may overtake the answer to the registration. They wait for it.
func TestTooEarly(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	serve(t, basic(s.URL), node.Quick{}, listen)
	p := s.connection()
	expect[wire.NodeRegister](p)
	key := wire.ActiveJob{JobID: "j-1", AttemptID: 1}
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1, Audio: &wire.Audio{}})
	p.audio(key, 0, "abc", true)
	p.send(anyAck)
	p.confirmed(key)
	wantHeard(t, p, "abc")
}

// TestMuchTooEarly: what never answers but sends and sends is left.
func TestMuchTooEarly(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	start(t, basic(s.URL), node.Quick{})
	p := s.connection()
	expect[wire.NodeRegister](p)
	for range 2000 {
		text, _ := wire.EncodeFrame(wire.JobCancel{})
		if p.conn.Write(t.Context(), websocket.MessageText, text) != nil {
			break
		}
	}
	s.registered(anyAck)
}

// TestAssignedAfterTheEnd: an attempt whose handler has not noticed yet that it is over is not taken a second time, and
// the scheduler is told at once.
func TestAssignedAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	h := newStubborn()
	serve(t, basic(s.URL), node.Quick{}, h.handle)
	p, _ := s.registered(anyAck)
	key := p.assign("j-1")
	p.send(wire.JobResultAck{ActiveJob: key, Code: wire.NotHolder})
	receive(t, h.ended, "the end of the context")
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1})
	if got := expect[wire.JobReject](p); got != (wire.JobReject{ActiveJob: key, Reason: "NODE_BUSY"}) {
		t.Errorf("answered %+v", got)
	}
	h.release <- node.Result{}
}

// TestMissingModelByPointer: the error is as good with an ampersand.
func TestMissingModelByPointer(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	serve(t, basic(s.URL), node.Quick{}, failing(&node.NotAvailableError{Service: "nmt"}))
	p, _ := s.registered(anyAck)
	p.assign("j-1")
	if got := expect[wire.ModelNotAvailable](p); got.ServiceID != "nmt" {
		t.Errorf("told %+v", got)
	}
}

// mute is a connection that, after its first message, cannot be written to.
type mute struct {
	net.Conn
	writes atomic.Int64
}

// Write implements net.Conn.
func (m *mute) Write(b []byte) (int, error) {
	if m.writes.Add(1) > 1 {
		return 0, errors.New("nothing more goes out")
	}
	return m.Conn.Write(b)
}

// TestRefusedBeforeTheFirstWord: a scheduler may close before it has read anything. What it said is heard all the same.
func TestRefusedBeforeTheFirstWord(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &mute{Conn: conn}, err
	}}
	defer transport.CloseIdleConnections()
	cfg.HTTPClient = &http.Client{Transport: transport}
	b := start(t, cfg, node.Quick{})
	p := s.connection()
	p.send(wire.ErrorFrame{Error: *wire.Errorf(wire.Unauthorized, "who are you"), Fatal: true})
	_ = p.conn.Close(websocket.StatusCode(wire.CloseUnauthorized), "")
	var refused *node.RefusedError
	if err := b.over(); !errors.As(err, &refused) || refused.Err == nil {
		t.Errorf("Run: %v", err)
	}
}

// TestReplacedByOurselves: the answer to a registration was lost, and the scheduler comes to it after the next one. That it
// then closes the next one is no reason to stay away.
func TestReplacedByOurselves(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	b := start(t, basic(s.URL), node.Quick{})
	p := s.connection()
	expect[wire.NodeRegister](p)
	p.cut() // and somebody still holds the registration
	p, _ = s.registered(anyAck)
	_ = p.conn.Close(websocket.StatusCode(wire.CloseReplaced), "")
	p, _ = s.registered(anyAck)
	_ = p.conn.Close(websocket.StatusCode(wire.CloseReplaced), "") // this time it was somebody else
	var refused *node.RefusedError
	if err := b.over(); !errors.As(err, &refused) {
		t.Errorf("Run: %v", err)
	}
}

// TestSlowPong: heartbeats do not wait for the answer to a ping.
func TestSlowPong(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	beats := make(chan struct{}, 16)
	s.mux.HandleFunc("/slow/ws/node", func(w http.ResponseWriter, r *http.Request) {
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
		_ = conn.Write(r.Context(), websocket.MessageText, text)
		for {
			_, text, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			if typ, _ := wire.TypeOf(text); typ == (wire.NodeHeartbeat{}).Type() {
				beats <- struct{}{}
			}
		}
	})
	start(t, basic(s.URL+"/slow"), node.Quick{Pong: time.Hour})
	for range 3 {
		receive(t, beats, "a heartbeat")
	}
}

// TestStalledTransfer: who answers and then says no more loses the audio, not the slot.
func TestStalledTransfer(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	over := make(chan struct{})
	s.mux.HandleFunc("GET /v1/audio/{job}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("job") == "begun" {
			_, _ = w.Write([]byte("abc"))
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	})
	t.Cleanup(func() { close(over) })
	serve(t, basic(s.URL), node.Quick{Stall: 50 * time.Millisecond}, listen)
	p, _ := s.registered(anyAck)
	for _, id := range []string{"begun", "silent"} {
		p.send(wire.JobAssign{JobID: id, AttemptID: 1, Audio: &wire.Audio{URL: "/v1/audio/" + id}})
		expect[wire.JobAck](p)
		if got := expect[wire.JobFail](p); got.Reason != "AUDIO_LOST" {
			t.Errorf("%s: failed with %s, want AUDIO_LOST", id, got.Reason)
		}
	}
}
