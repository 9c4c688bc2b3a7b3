package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

func wantNormalClose(t *testing.T, p *peer) {
	t.Helper()
	receive(t, closed(p), "the end of the connection")
	if got := websocket.CloseStatus(p.err); got != websocket.StatusNormalClosure {
		t.Errorf("closed with %v (%v), want 1000", got, p.err)
	}
}

// TestLeave: the node says so, takes nothing new, finishes what it has, waits until that is acknowledged, and goes.
func TestLeave(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	cfg.ShutdownTimeout = patience
	b := start(t, cfg, node.Quick{})
	p, _ := s.registered(anyAck)
	key := p.assign("j-1")
	j := b.next()
	b.stop()
	if hb := p.heartbeat(); hb.Health != "draining" || len(hb.Active) != 1 {
		t.Errorf("heartbeat %+v, want draining", hb)
	}
	p.send(wire.JobAssign{JobID: "j-2", AttemptID: 1})
	if got := expect[wire.JobReject](p); got.Reason != "NODE_BUSY" {
		t.Errorf("refused with %q", got.Reason)
	}
	if j.ctx.Err() != nil {
		t.Error("the job was stopped")
	}
	j.done("hola")
	expect[wire.JobResult](p)
	select {
	case err := <-b.ended:
		t.Fatalf("Run returned %v before the result was acknowledged", err)
	default:
	}
	p.acknowledge(key)
	wantNormalClose(t, p)
	if err := b.over(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestLeaveWithNothingInHand(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	cfg.ShutdownTimeout = patience
	b := start(t, cfg, node.Quick{})
	p, _ := s.registered(anyAck)
	p.send(wire.JobCancel{ActiveJob: wire.ActiveJob{JobID: "mark"}})
	expect[wire.JobCancelled](p)
	b.stop()
	if hb := p.heartbeat(); hb.Health != "draining" {
		t.Errorf("heartbeat %+v, want draining", hb)
	}
	wantNormalClose(t, p)
	if err := b.over(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// TestLeaveInTheEnd: the time of grace is over. The handlers' contexts end, and the scheduler learns of it.
func TestLeaveInTheEnd(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	cfg.ShutdownTimeout = 10 * time.Millisecond
	b := start(t, cfg, node.Quick{Quit: patience})
	p, _ := s.registered(anyAck)
	key := p.assign("j-1")
	j := b.next()
	b.stop()
	<-j.ctx.Done()
	if got := expect[wire.JobFail](p); got != (wire.JobFail{ActiveJob: key, Reason: "NODE_SHUTDOWN"}) {
		t.Errorf("told %+v", got)
	}
	p.acknowledge(key)
	wantNormalClose(t, p)
	if err := b.over(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// TestLeaveBehind: a handler that does not return does not hold the node, but is told of.
func TestLeaveBehind(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	release := make(chan struct{})
	gone := make(chan struct{})
	b := serve(t, basic(s.URL), node.Quick{Quit: 10 * time.Millisecond}, func(context.Context, *node.Job) (node.Result, error) {
		defer close(gone)
		<-release
		return node.Result{}, nil
	})
	p, _ := s.registered(anyAck)
	p.assign("j-1")
	b.stop()
	if err := b.over(); err == nil {
		t.Error("Run: nil, want to be told of the handler")
	}
	close(release)
	<-gone
}

// TestLeaveWhileDisconnected: the node comes back for its results, and as one that is leaving.
func TestLeaveWhileDisconnected(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	cfg.ShutdownTimeout = patience
	b := start(t, cfg, node.Quick{})
	p, _ := s.registered(anyAck)
	key := p.assign("j-1")
	j := b.next()
	s.refuse.Store(503)
	p.cut()
	receive(t, s.asked, "a try to come back")
	b.stop()
	j.done("hola")
	receive(t, s.asked, "a further try")
	receive(t, s.asked, "a further try")
	s.refuse.Store(0)
	p, r := s.registered(anyAck)
	if r.Health != "draining" {
		t.Errorf("came back as %q, want draining", r.Health)
	}
	expect[wire.JobResult](p)
	p.acknowledge(key)
	wantNormalClose(t, p)
	if err := b.over(); err != nil {
		t.Errorf("Run: %v", err)
	}
}
