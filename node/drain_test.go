package node_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// drainable runs a node that says when it is drained and when it is wanted again.
func drainable(t *testing.T, s *scheduler) (b *bench, told chan bool) {
	t.Helper()
	told = make(chan bool, 16)
	cfg := basic(s.URL)
	cfg.OnDrain = func(drained bool) { told <- drained }
	return start(t, cfg, node.Quick{}), told
}

func wantTold(t *testing.T, told <-chan bool, want ...bool) {
	t.Helper()
	for _, w := range want {
		if got := receive(t, told, "word of the operator"); got != w {
			t.Errorf("told %v, want %v", got, w)
		}
	}
	select {
	case got := <-told:
		t.Errorf("told %v a second time", got)
	default:
	}
}

// TestDrain: nothing new is taken, what runs is finished, the author knows, and it can be taken back.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	b, told := drainable(t, s)
	p, _ := s.registered(anyAck)
	p.send(wire.Drain{}) // no news
	key := p.assign("j-1")
	p.send(wire.Drain{Drained: true})
	p.send(wire.Drain{Drained: true})
	p.send(wire.JobAssign{JobID: "j-2", AttemptID: 1})
	if got := expect[wire.JobReject](p); got.JobID != "j-2" || got.Reason != "NODE_BUSY" {
		t.Errorf("refused %+v", got)
	}
	wantTold(t, told, true)
	p.assign("j-1") // what it has, it has
	j := b.next()
	if j.ctx.Err() != nil {
		t.Error("the job was stopped")
	}
	j.done("hola")
	expect[wire.JobResult](p)
	p.acknowledge(key)
	p.send(wire.Drain{})
	p.assign("j-3")
	wantTold(t, told, false)
}

// TestDrainAndReconnect: a registration leaves it to the scheduler, which gives a drained node nothing. When it does, the
// node was not told that it is wanted again, and tells its author now.
func TestDrainAndReconnect(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*scheduler, *peer) *peer{
		"a cut": func(s *scheduler, p *peer) *peer {
			p.cut()
			p, _ = s.registered(anyAck)
			return p
		},
		"another life": func(_ *scheduler, p *peer) *peer {
			ack := anyAck
			ack.Epoch = 8
			p.send(ack)
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScheduler(t)
			_, told := drainable(t, s)
			p, _ := s.registered(anyAck)
			p.send(wire.Drain{Drained: true})
			p.settled()
			wantTold(t, told, true)
			p = again(s, p)
			p.settled()
			wantTold(t, told)
			p.assign("j-1")
			p.settled()
			wantTold(t, told, false)
		})
	}
}

// TestDrainLeaves: an author may have the node leave when it is drained.
func TestDrainLeaves(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	cfg.ShutdownTimeout = patience
	var b *bench
	ready := make(chan struct{})
	cfg.OnDrain = func(bool) { <-ready; b.stop() }
	b = start(t, cfg, node.Quick{})
	close(ready)
	p, _ := s.registered(anyAck)
	key := p.assign("j-1")
	p.send(wire.Drain{Drained: true})
	b.next().done("hola")
	expect[wire.JobResult](p)
	p.acknowledge(key)
	wantNormalClose(t, p)
	if err := b.over(); err != nil {
		t.Errorf("Run: %v", err)
	}
}
