package node_test

import (
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestGoAway: the node connects anew before it leaves. Jobs go on; what the new registration cannot list is refused.
func TestGoAway(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	b := start(t, basic(s.URL), node.Quick{})
	old, _ := s.registered(anyAck)
	key := old.assign("j-1")
	j := b.next()
	old.send(wire.GoAway{Reason: "stopping", ReconnectMS: 50})
	next := s.connection()
	r := expect[wire.NodeRegister](next)
	if r.ResumeToken != anyAck.ResumeToken || len(r.Active) != 1 || r.Active[0].ActiveJob != key {
		t.Errorf("came back with %+v", r)
	}
	old.send(wire.JobAssign{JobID: "j-2", AttemptID: 1})
	if got := expect[wire.JobReject](old); got.Reason != "NODE_BUSY" {
		t.Errorf("refused with %q", got.Reason)
	}
	// The scheduler may close the old connection before it answers on the new one.
	_ = old.conn.Close(websocket.StatusCode(wire.CloseReplaced), "")
	next.send(anyAck)
	next.confirmed(key)
	j.done("hola")
	expect[wire.JobResult](next)
	next.assign("j-3")
	<-old.done
}

// TestGoAwayLeavesTheOld: the node closes it when the new one stands.
func TestGoAwayLeavesTheOld(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	start(t, basic(s.URL), node.Quick{})
	old, _ := s.registered(anyAck)
	old.send(wire.GoAway{})
	next, _ := s.registered(anyAck)
	receive(t, closed(old), "the end of the old connection")
	next.assign("j-1")
}

// TestGoAwayToNobody: as long as the old connection holds the node stays, and tries again. That the old one is replaced by
// a try which came to nothing does not end it.
func TestGoAwayToNobody(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	start(t, basic(s.URL), node.Quick{})
	old, _ := s.registered(anyAck)
	old.send(wire.GoAway{ReconnectMS: 1})
	next := s.connection()
	expect[wire.NodeRegister](next)
	next.cut()
	next = s.connection()
	expect[wire.NodeRegister](next)
	_ = old.conn.Close(websocket.StatusCode(wire.CloseReplaced), "")
	next.cut()
	next, _ = s.registered(anyAck)
	next.assign("j-1")
}

// TestGoAwayToTheDoor: the node is not wanted elsewhere.
func TestGoAwayToTheDoor(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	b := start(t, basic(s.URL), node.Quick{})
	old, _ := s.registered(anyAck)
	s.refuse.Store(401)
	old.send(wire.GoAway{ReconnectMS: 1})
	if err := b.over(); err == nil {
		t.Error("Run: nil, want to be told")
	}
	receive(t, closed(old), "the end of the old connection")
}

// closed is sent to when a connection has ended.
func closed(p *peer) <-chan struct{} {
	c := make(chan struct{}, 1)
	go func() {
		<-p.done
		c <- struct{}{}
	}()
	return c
}
