package node_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestResendUntilAcknowledged(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n := startNode(t, testConfig(s.URL), node.FastTiming{ResendAfter: 30 * time.Millisecond})
	p, _ := s.register(defaultAck)
	key := p.assign("j-1")
	n.awaitCall().finish("hola")
	first := expect[wire.JobResult](p)
	for range 3 {
		if diff := cmp.Diff(first, expect[wire.JobResult](p)); diff != "" {
			t.Errorf("sent again (-first +this):\n%s", diff)
		}
	}
	p.acknowledge(key)
	p.send(wire.JobAssign{JobID: "j-2", AttemptID: 1}) // its acknowledgement follows when the node has read the one above
	for {
		if m, _ := p.next(); m.typ == (wire.JobAck{}).Type() {
			break
		}
	}
	n.awaitCall().finish("adiós")
	for range 4 {
		if got := expect[wire.JobResult](p); got.JobID != "j-2" {
			t.Errorf("the result of %s was resent after its acknowledgement", got.JobID)
		}
	}
}

func TestExpiredOutcomesAreDropped(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n := startNode(t, testConfig(s.URL), node.FastTiming{ResendAfter: 30 * time.Millisecond, KeepOutcome: 100 * time.Millisecond})
	ack := defaultAck
	ack.HeartbeatIntervalMS = 20
	p, _ := s.register(ack)
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1})
	j := n.awaitCall()
	until := time.Now().Add(timeout)
	await := func(listed int) {
		t.Helper()
		for len(p.heartbeat().Active) != listed {
			if time.Now().After(until) {
				t.Fatalf("no heartbeat lists %d attempts", listed)
			}
		}
	}
	await(1)
	j.finish("hola")
	await(0)
}

// readSpeech waits for a result and all of its speech, and returns the size of the speech.
func (p *nodeConn) readSpeech() (bytes int) {
	p.t.Helper()
	if r := expect[wire.JobResult](p); !r.TTS {
		return 0
	}
	for {
		m, ok := p.next()
		if !ok || m.typ != "" {
			p.t.Fatalf("the node sent %q, want speech", m.typ)
		}
		if bytes += len(m.data); m.header.Last {
			return bytes
		}
	}
}

// At a limit of unacknowledged outcomes no further job is accepted, until some are acknowledged.
func TestUnacknowledgedOutcomesAreLimited(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	speech := make([]byte, 1<<20)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{MaxUnacked: 2 << 20}, respondWith(node.Result{Speech: speech}))
	p, _ := s.register(defaultAck)
	var keys []wire.ActiveJob
	for _, id := range []string{"j-1", "j-2"} {
		keys = append(keys, p.assign(id))
		if got := p.readSpeech(); got != len(speech) {
			t.Fatalf("%d bytes of speech, want %d", got, len(speech))
		}
	}
	p.send(wire.JobAssign{JobID: "j-3", AttemptID: 1})
	if got := expect[wire.JobReject](p); got.Reason != "NODE_BUSY" {
		t.Errorf("rejected with %q", got.Reason)
	}
	p.drop() // a reconnect must not change that
	p, _ = s.register(defaultAck)
	for last := 0; last < 2; {
		if m, _ := p.next(); m.header.Last {
			last++
		}
	}
	p.send(wire.JobAssign{JobID: "j-3", AttemptID: 1})
	expect[wire.JobReject](p)
	p.acknowledge(keys[0])
	p.assign("j-4")
}

// A list of jobs that does not fit into a message, beside a large declaration, would end the connection.
func TestJobListFitsIntoOneMessage(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.Slots = 10000
	cfg.Declaration.Features = []string{strings.Repeat("x", 60<<10)}
	startNodeWith(t, cfg, node.FastTiming{}, func(ctx context.Context, _ *node.Job) (node.Result, error) {
		<-ctx.Done()
		return node.Result{}, ctx.Err()
	})
	p, _ := s.register(defaultAck)
	taken := 0
	for ; ; taken++ {
		p.send(wire.JobAssign{JobID: fmt.Sprintf("%0128d", taken), AttemptID: 1 << 30})
		if m, _ := p.next(); m.typ == (wire.JobReject{}).Type() {
			break
		}
	}
	if taken < 1000 {
		t.Errorf("only %d jobs were accepted", taken)
	}
	p.drop()
	_, r := s.register(defaultAck) // the fake scheduler reads no larger message than the real one
	if len(r.Active) != taken {
		t.Errorf("%d jobs are listed, want %d", len(r.Active), taken)
	}
}

// blockingHandler is a handler that returns when the test releases it, even if its context has ended.
type blockingHandler struct {
	cancelled chan struct{} // receives when its context has ended
	release   chan node.Result
}

func newBlockingHandler() *blockingHandler {
	return &blockingHandler{cancelled: make(chan struct{}, 16), release: make(chan node.Result)}
}

func (s *blockingHandler) handle(ctx context.Context, job *node.Job) (node.Result, error) {
	<-ctx.Done()
	job.Partial(node.Partial{TextSrc: "after the end"})
	s.cancelled <- struct{}{}
	return <-s.release, nil
}

// The context of the handler ends. Only when the handler has returned is JobCancelled sent, and nothing else; until then
// the job takes a slot and is listed.
func TestCancelRunningJob(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.Slots = 1
	h := newBlockingHandler()
	startNodeWith(t, cfg, node.FastTiming{}, h.handle)
	ack := defaultAck
	ack.HeartbeatIntervalMS = 20
	p, _ := s.register(ack)
	key := p.assign("j-1")
	p.send(wire.JobCancel{ActiveJob: key})
	receive(t, h.cancelled, "the end of the context")
	p.send(wire.JobAssign{JobID: "j-2", AttemptID: 1})
	if got := expect[wire.JobReject](p); got.JobID != "j-2" {
		t.Errorf("rejected %+v", got)
	}
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1}) // not acknowledged: JobCancelled follows
	p.send(wire.JobCancel{ActiveJob: key})             // a repetition has no effect
	p.sync()
	if diff := cmp.Diff([]wire.ActiveAttempt{{ActiveJob: key}}, p.heartbeat().Active); diff != "" {
		t.Errorf("active (-want +got):\n%s", diff)
	}
	h.release <- node.Result{TextTgt: "never mind"}
	if got := expect[wire.JobCancelled](p); got.ActiveJob != key {
		t.Errorf("cancelled %+v, want %v", got, key)
	}
	if active := p.heartbeat().Active; len(active) > 0 {
		t.Errorf("%v is still listed", active)
	}
	key = p.assign("j-3") // and no message before it
	p.send(wire.JobCancel{ActiveJob: key})
	h.release <- node.Result{}
	expect[wire.JobCancelled](p)
}

// The cancellation of an unknown job, of another attempt, and of a finished attempt is confirmed at once.
func TestCancelJobThatIsNotRunning(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n := startNode(t, testConfig(s.URL), node.FastTiming{})
	p, _ := s.register(defaultAck)
	key := p.assign("j-1")
	j := n.awaitCall()
	for _, other := range []wire.ActiveJob{{JobID: "j-9", AttemptID: 1}, {JobID: "j-1", AttemptID: 2}} {
		p.send(wire.JobCancel{ActiveJob: other})
		if got := expect[wire.JobCancelled](p); got.ActiveJob != other {
			t.Errorf("cancelled %v, want %v", got.ActiveJob, other)
		}
	}
	if j.ctx.Err() != nil {
		t.Error("another attempt was cancelled")
	}
	j.finish("hola")
	expect[wire.JobResult](p)
	p.send(wire.JobCancel{ActiveJob: key})
	expect[wire.JobCancelled](p)

	p.drop()
	p, r := s.register(defaultAck)
	if len(r.Active) > 0 {
		t.Errorf("%v is still listed", r.Active)
	}
	p.assign("j-2") // and no result before it
}

// The scheduler may have moved some of the listed jobs to another node in the meantime.
func TestCancelAtRegistration(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n := startNode(t, testConfig(s.URL), node.FastTiming{})
	p, _ := s.register(defaultAck)
	lost, kept := p.assign("j-1"), p.assign("j-2")
	one, two := n.awaitCall(), n.awaitCall()
	if one.ID != lost.JobID {
		one, two = two, one
	}
	p.drop()
	ack := defaultAck
	ack.Epoch, ack.Cancel = 8, []wire.ActiveJob{lost}
	p, _ = s.register(ack)
	p.expectAck(kept)
	<-one.ctx.Done()
	if got := expect[wire.JobCancelled](p); got.ActiveJob != lost {
		t.Errorf("cancelled %v, want %v", got.ActiveJob, lost)
	}
	two.finish("hola")
	if got := expect[wire.JobResult](p); got.ActiveJob != kept {
		t.Errorf("result of %v, want %v", got.ActiveJob, kept)
	}
}

// The job is over, so the handler is cancelled and nothing is sent about it.
func TestResultAckStopsRunningJob(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	h := newBlockingHandler()
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, h.handle)
	ack := defaultAck
	ack.HeartbeatIntervalMS = 20
	p, _ := s.register(ack)
	key := p.assign("j-1")
	p.send(wire.JobResultAck{ActiveJob: key, Code: wire.NotHolder})
	receive(t, h.cancelled, "the end of the context")
	p.sync() // earlier heartbeats are skipped
	if active := p.heartbeat().Active; len(active) > 0 {
		t.Errorf("%v is still listed", active)
	}
	h.release <- node.Result{}
	key = p.assign("j-2") // and no message before it
	p.send(wire.JobCancel{ActiveJob: key})
	h.release <- node.Result{}
	expect[wire.JobCancelled](p)
}

// An attempt whose handler has not yet noticed its end is rejected at once, and not run a second time.
func TestAssignWhileStoppedHandlerRuns(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	h := newBlockingHandler()
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, h.handle)
	p, _ := s.register(defaultAck)
	key := p.assign("j-1")
	p.send(wire.JobResultAck{ActiveJob: key, Code: wire.NotHolder})
	receive(t, h.cancelled, "the end of the context")
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1})
	if got := expect[wire.JobReject](p); got != (wire.JobReject{ActiveJob: key, Reason: "NODE_BUSY"}) {
		t.Errorf("answered %+v", got)
	}
	h.release <- node.Result{}
}
