package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// startDrainable runs a node and returns a channel with the calls of OnDrain.
func startDrainable(t *testing.T, s *fakeScheduler) (n *testNode, drains chan bool) {
	t.Helper()
	drains = make(chan bool, 16)
	cfg := testConfig(s.URL)
	cfg.OnDrain = func(drained bool) { drains <- drained }
	return startNode(t, cfg, node.FastTiming{}), drains
}

func expectDrain(t *testing.T, drains <-chan bool, want ...bool) {
	t.Helper()
	for _, w := range want {
		if got := receive(t, drains, "a call of OnDrain"); got != w {
			t.Errorf("OnDrain(%v), want %v", got, w)
		}
	}
	select {
	case got := <-drains:
		t.Errorf("OnDrain(%v) was called a second time", got)
	default:
	}
}

// Running jobs continue, OnDrain is called, and the drain can end.
func TestDrainedNodeRefusesNewJobs(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n, drains := startDrainable(t, s)
	p, _ := s.register(defaultAck)
	p.send(wire.Drain{}) // no change
	key := p.assign("j-1")
	p.send(wire.Drain{Drained: true})
	p.send(wire.Drain{Drained: true})
	p.send(wire.JobAssign{JobID: "j-2", AttemptID: 1})
	if got := expect[wire.JobReject](p); got.JobID != "j-2" || got.Reason != "NODE_BUSY" {
		t.Errorf("rejected %+v", got)
	}
	expectDrain(t, drains, true)
	p.assign("j-1") // a current job is acknowledged again
	j := n.awaitCall()
	if j.ctx.Err() != nil {
		t.Error("the job was cancelled")
	}
	j.finish("hola")
	expect[wire.JobResult](p)
	p.acknowledge(key)
	p.send(wire.Drain{})
	p.assign("j-3")
	expectDrain(t, drains, false)
}

// A drain holds for one registration: the scheduler gives a drained node no jobs. If it does give one, the drain has ended,
// and OnDrain is called.
func TestDrainAcrossRegistrations(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*fakeScheduler, *nodeConn) *nodeConn{
		"a lost connection": func(s *fakeScheduler, p *nodeConn) *nodeConn {
			p.drop()
			p, _ = s.register(defaultAck)
			return p
		},
		"a new epoch": func(_ *fakeScheduler, p *nodeConn) *nodeConn {
			ack := defaultAck
			ack.Epoch = 8
			p.send(ack)
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeScheduler(t)
			_, drains := startDrainable(t, s)
			p, _ := s.register(defaultAck)
			p.send(wire.Drain{Drained: true})
			p.sync()
			expectDrain(t, drains, true)
			p = again(s, p)
			p.sync()
			expectDrain(t, drains)
			p.assign("j-1")
			p.sync()
			expectDrain(t, drains, false)
		})
	}
}

func TestOnDrainMayStopTheNode(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.ShutdownTimeout = timeout
	var n *testNode
	ready := make(chan struct{})
	cfg.OnDrain = func(bool) { <-ready; n.stop() }
	n = startNode(t, cfg, node.FastTiming{})
	close(ready)
	p, _ := s.register(defaultAck)
	key := p.assign("j-1")
	p.send(wire.Drain{Drained: true})
	n.awaitCall().finish("hola")
	expect[wire.JobResult](p)
	p.acknowledge(key)
	wantNormalClose(t, p)
	if err := n.awaitResult(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func wantNormalClose(t *testing.T, p *nodeConn) {
	t.Helper()
	receive(t, awaitClose(p), "the end of the connection")
	if got := websocket.CloseStatus(p.err); got != websocket.StatusNormalClosure {
		t.Errorf("closed with %v (%v), want 1000", got, p.err)
	}
}

// The node announces the shutdown, accepts no job, finishes those that it has, waits for their acknowledgement, and closes
// the connection.
func TestShutdownFinishesJobs(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.ShutdownTimeout = timeout
	n := startNode(t, cfg, node.FastTiming{})
	p, _ := s.register(defaultAck)
	key := p.assign("j-1")
	j := n.awaitCall()
	n.stop()
	if hb := p.heartbeat(); hb.Health != "draining" || len(hb.Active) != 1 {
		t.Errorf("heartbeat %+v, want draining", hb)
	}
	p.send(wire.JobAssign{JobID: "j-2", AttemptID: 1})
	if got := expect[wire.JobReject](p); got.Reason != "NODE_BUSY" {
		t.Errorf("rejected with %q", got.Reason)
	}
	if j.ctx.Err() != nil {
		t.Error("the job was cancelled")
	}
	j.finish("hola")
	expect[wire.JobResult](p)
	select {
	case err := <-n.result:
		t.Fatalf("Run returned %v before the result was acknowledged", err)
	default:
	}
	p.acknowledge(key)
	wantNormalClose(t, p)
	if err := n.awaitResult(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestShutdownWithoutJobs(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.ShutdownTimeout = timeout
	n := startNode(t, cfg, node.FastTiming{})
	p, _ := s.register(defaultAck)
	p.send(wire.JobCancel{ActiveJob: wire.ActiveJob{JobID: "mark"}})
	expect[wire.JobCancelled](p)
	n.stop()
	if hb := p.heartbeat(); hb.Health != "draining" {
		t.Errorf("heartbeat %+v, want draining", hb)
	}
	wantNormalClose(t, p)
	if err := n.awaitResult(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// The contexts of the handlers end, and the scheduler receives the failures.
func TestShutdownTimeoutCancelsHandlers(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.ShutdownTimeout = 10 * time.Millisecond
	n := startNode(t, cfg, node.FastTiming{StopTimeout: timeout})
	p, _ := s.register(defaultAck)
	key := p.assign("j-1")
	j := n.awaitCall()
	n.stop()
	<-j.ctx.Done()
	if got := expect[wire.JobFail](p); got != (wire.JobFail{ActiveJob: key, Reason: "NODE_SHUTDOWN"}) {
		t.Errorf("sent %+v", got)
	}
	p.acknowledge(key)
	wantNormalClose(t, p)
	if err := n.awaitResult(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// A handler that does not return does not keep Run from returning, with an error.
func TestShutdownReportsStuckHandler(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	release := make(chan struct{})
	returned := make(chan struct{})
	n := startNodeWith(t, testConfig(s.URL), node.FastTiming{StopTimeout: 10 * time.Millisecond}, func(context.Context, *node.Job) (node.Result, error) {
		defer close(returned)
		<-release
		return node.Result{}, nil
	})
	p, _ := s.register(defaultAck)
	p.assign("j-1")
	n.stop()
	if err := n.awaitResult(); err == nil {
		t.Error("Run: nil, want an error about the handler")
	}
	close(release)
	<-returned
}

// The node reconnects to deliver its results, and registers as draining.
func TestShutdownWhileDisconnected(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.ShutdownTimeout = timeout
	n := startNode(t, cfg, node.FastTiming{})
	p, _ := s.register(defaultAck)
	key := p.assign("j-1")
	j := n.awaitCall()
	s.refuseStatus.Store(503)
	p.drop()
	receive(t, s.refused, "a handshake")
	n.stop()
	j.finish("hola")
	receive(t, s.refused, "another handshake")
	receive(t, s.refused, "another handshake")
	s.refuseStatus.Store(0)
	p, r := s.register(defaultAck)
	if r.Health != "draining" {
		t.Errorf("registered again as %q, want draining", r.Health)
	}
	expect[wire.JobResult](p)
	p.acknowledge(key)
	wantNormalClose(t, p)
	if err := n.awaitResult(); err != nil {
		t.Errorf("Run: %v", err)
	}
}
