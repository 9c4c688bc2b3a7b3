package node_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// stubborn is a handler that returns when the test lets it, whatever its context says.
type stubborn struct {
	ended   chan struct{} // its context has
	release chan node.Result
}

func newStubborn() *stubborn {
	return &stubborn{ended: make(chan struct{}, 16), release: make(chan node.Result)}
}

func (s *stubborn) handle(ctx context.Context, job *node.Job) (node.Result, error) {
	<-ctx.Done()
	job.Partial(node.Partial{TextSrc: "after the end"})
	s.ended <- struct{}{}
	return <-s.release, nil
}

// TestCancel: the handler's context ends; that the job has stopped is said when the handler has returned, and nothing else
// is; until then the job takes its room and is listed.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	cfg.Slots = 1
	h := newStubborn()
	serve(t, cfg, node.Quick{}, h.handle)
	ack := anyAck
	ack.HeartbeatIntervalMS = 20
	p, _ := s.registered(ack)
	key := p.assign("j-1")
	p.send(wire.JobCancel{ActiveJob: key})
	receive(t, h.ended, "the end of the context")
	p.send(wire.JobAssign{JobID: "j-2", AttemptID: 1})
	if got := expect[wire.JobReject](p); got.JobID != "j-2" {
		t.Errorf("refused %+v", got)
	}
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1}) // not confirmed: it will be said that it has stopped
	p.send(wire.JobCancel{ActiveJob: key})             // a second time does nothing
	if diff := cmp.Diff([]wire.ActiveAttempt{{ActiveJob: key}}, p.heartbeat().Active); diff != "" {
		t.Errorf("active (-want +got):\n%s", diff)
	}
	h.release <- node.Result{TextTgt: "never mind"}
	if got := expect[wire.JobCancelled](p); got.ActiveJob != key {
		t.Errorf("stopped %+v, want %v", got, key)
	}
	if active := p.heartbeat().Active; len(active) > 0 {
		t.Errorf("%v is still listed", active)
	}
	key = p.assign("j-3") // and nothing before it
	p.send(wire.JobCancel{ActiveJob: key})
	h.release <- node.Result{}
	expect[wire.JobCancelled](p)
}

// TestCancelOfWhatDoesNotRun: an unknown job, another attempt, and one whose result waits have stopped already.
func TestCancelOfWhatDoesNotRun(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	b := start(t, basic(s.URL), node.Quick{})
	p, _ := s.registered(anyAck)
	key := p.assign("j-1")
	j := b.next()
	for _, other := range []wire.ActiveJob{{JobID: "j-9", AttemptID: 1}, {JobID: "j-1", AttemptID: 2}} {
		p.send(wire.JobCancel{ActiveJob: other})
		if got := expect[wire.JobCancelled](p); got.ActiveJob != other {
			t.Errorf("stopped %v, want %v", got.ActiveJob, other)
		}
	}
	if j.ctx.Err() != nil {
		t.Error("the wrong attempt was stopped")
	}
	j.done("hola")
	expect[wire.JobResult](p)
	p.send(wire.JobCancel{ActiveJob: key})
	expect[wire.JobCancelled](p)

	p.cut()
	p, r := s.registered(anyAck)
	if len(r.Active) > 0 {
		t.Errorf("%v is still in hand", r.Active)
	}
	p.assign("j-2") // and no result before it
}

// TestCancelAtRegistration: jobs of the list that were given to somebody else meanwhile.
func TestCancelAtRegistration(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	b := start(t, basic(s.URL), node.Quick{})
	p, _ := s.registered(anyAck)
	lost, kept := p.assign("j-1"), p.assign("j-2")
	one, two := b.next(), b.next()
	if one.ID != lost.JobID {
		one, two = two, one
	}
	p.cut()
	ack := anyAck
	ack.Epoch, ack.Cancel = 8, []wire.ActiveJob{lost}
	p, _ = s.registered(ack)
	p.confirmed(kept)
	<-one.ctx.Done()
	if got := expect[wire.JobCancelled](p); got.ActiveJob != lost {
		t.Errorf("stopped %v, want %v", got.ActiveJob, lost)
	}
	two.done("hola")
	if got := expect[wire.JobResult](p); got.ActiveJob != kept {
		t.Errorf("result of %v, want %v", got.ActiveJob, kept)
	}
}

// TestAcknowledgedWhileItRuns: the job is over, so the handler stops and nothing is said about it.
func TestAcknowledgedWhileItRuns(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	h := newStubborn()
	serve(t, basic(s.URL), node.Quick{}, h.handle)
	ack := anyAck
	ack.HeartbeatIntervalMS = 20
	p, _ := s.registered(ack)
	key := p.assign("j-1")
	p.send(wire.JobResultAck{ActiveJob: key, Code: wire.NotHolder})
	receive(t, h.ended, "the end of the context")
	p.settled() // heartbeats of before are left out
	if active := p.heartbeat().Active; len(active) > 0 {
		t.Errorf("%v is still listed", active)
	}
	h.release <- node.Result{}
	key = p.assign("j-2") // and nothing before it
	p.send(wire.JobCancel{ActiveJob: key})
	h.release <- node.Result{}
	expect[wire.JobCancelled](p)
}
