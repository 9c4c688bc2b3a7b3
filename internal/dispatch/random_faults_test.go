package dispatch_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

var chaosSeeds = flag.Uint64("chaos-seeds", 2, "how many runs of random faults TestRandomFaults and TestRandomFaultsInPools make")

// TestRandomFaults injects faults at random: nodes that fail, refuse, drop jobs, die, return and
// restart, a store that fails or loses replies, cancels, repeats. Afterwards every accepted job has
// ended once, no node had more jobs than slots, and no lease or in-flight job is left. In full:
//
//	go test -v -run TestRandomFaults ./internal/dispatch -chaos-seeds 40
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	for seed := range *chaosSeeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			runTest(t, func(h *harness) { (&chaos{harness: h, rng: rand.New(rand.NewPCG(seed, 99))}).run() })
		})
	}
}

const (
	chaosNodes = 8
	chaosSlots = 2
	chaosTime  = 3 * time.Minute
)

type chaos struct {
	*harness
	mu  sync.Mutex
	rng *rand.Rand

	accepted map[core.JobID]bool
	dead     [chaosNodes]bool
	calm     bool

	change   func(who int, s *core.Spec)   // changes the requests; nil: they stay as they are
	services func(node int) []core.Service // that a node declares; nil: none
}

// chance returns true with probability p; the generator is shared.
func (s *chaos) chance(p float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.Float64() < p
}

func (s *chaos) upTo(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.rng.Int64N(int64(d)))
}

func nodeName(i int) string { return fmt.Sprint("node-", i) }

func (s *chaos) run() {
	s.accepted = make(map[core.JobID]bool)
	s.transport.onDelivery = s.process
	for i := range chaosNodes {
		s.addNode(nodeName(i), chaosSlots, s.declaration(i))
	}
	ctx, stop := context.WithTimeout(s.t.Context(), chaosTime)
	defer stop()
	var wg sync.WaitGroup
	for i := range chaosNodes {
		wg.Go(func() { s.runNode(ctx, i) })
	}
	for i := range 12 {
		wg.Go(func() { s.sendRequests(ctx, i) })
	}
	wg.Go(func() { s.breakStore(ctx) })
	wg.Wait()
	s.checkAfterwards()
}

// checkAfterwards stops the faults, lets time pass until every job must have ended, and checks the result.
func (s *chaos) checkAfterwards() {
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	for i := range chaosNodes {
		s.transport.failWith(nodeName(i), nil)
		if s.dead[i] {
			s.restart(i)
		}
	}
	for range 70 {
		time.Sleep(time.Second)
		for i := range chaosNodes {
			s.heartbeatNode(i)
		}
		synctest.Wait()
	}
	for id := range s.accepted {
		if j := s.job(id); !j.State.Terminal() {
			s.t.Errorf("%s is still %s: %+v", id, j.State, j.History)
		}
	}
	if n := s.dispatcher.InFlight(); n != 0 {
		s.t.Errorf("%d jobs in flight, want none", n)
	}
	for i := range chaosNodes {
		s.wantFree(nodeName(i))
		leases, err := s.mem.Orphans(s.t.Context(), core.NodeID(nodeName(i)))
		if err != nil || len(leases) != 0 {
			s.t.Errorf("%s still has the leases %v", nodeName(i), leases)
		}
	}
	if len(s.accepted) < 100 {
		s.t.Errorf("only %d jobs were accepted: too few for this test", len(s.accepted))
	}
}

// sendRequests is a client that sometimes repeats a request or cancels its job.
func (s *chaos) sendRequests(ctx context.Context, who int) {
	for i := 0; ctx.Err() == nil; i++ {
		time.Sleep(s.upTo(2 * time.Second))
		sp := spec(withRequestID(fmt.Sprintf("req-%d-%d", who, i)))
		if s.change != nil {
			s.change(who, &sp)
		}
		id := sp.Job()
		times := 1
		if s.chance(0.3) {
			times = 3
		}
		var calls sync.WaitGroup
		for range times {
			calls.Go(func() {
				p, err := s.dispatcher.Dispatch(s.t.Context(), dispatch.Request{Spec: sp})
				if err != nil {
					return
				}
				if p.Job != id {
					s.t.Errorf("request %s gave job %s, want %s", sp.Request, p.Job, id)
				}
				s.mu.Lock()
				s.accepted[id] = true
				s.mu.Unlock()
			})
		}
		calls.Wait()
		if s.chance(0.1) {
			_, _, _ = s.dispatcher.Cancel(s.t.Context(), id) // the job may not exist, or the store may fail
		}
	}
}

// process runs a job on its node: it is called by the transport with each delivery.
func (s *chaos) process(a *wire.Assignment) {
	p := dispatch.Placement{Job: core.JobID(a.JobID), Node: core.NodeID(a.NodeID), Attempt: a.AttemptID}
	if held := len(s.transport.heldBy(a.NodeID)); held > chaosSlots {
		s.t.Errorf("%s holds %d jobs on %d slots", a.NodeID, held, chaosSlots)
	}
	if s.chance(0.1) {
		return // no ACK; the node lists the job until it is cancelled
	}
	go func() {
		time.Sleep(s.upTo(3 * time.Second)) // sometimes too late
		if err := s.retryReport(func() error { return s.ack(p) }); err != nil {
			s.transport.drop(p)
			return
		}
		time.Sleep(s.upTo(4 * time.Second))
		switch {
		case s.chance(0.1):
			s.transport.drop(p) // the node loses the job without a report
		case s.chance(0.15):
			_ = s.retryReport(func() error { return s.fail(p, core.ReasonNodeFailed) })
		default:
			_ = s.retryReport(func() error { return s.done(p) })
			if s.chance(0.2) {
				_ = s.done(p) // repeated
			}
		}
	}()
}

// retryReport repeats a report until the answer is final.
func (s *chaos) retryReport(report func() error) error {
	for {
		err := report()
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.SchedulerDependencyDown {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// runNode simulates a node: heartbeats, deaths, restarts, refusals.
func (s *chaos) runNode(ctx context.Context, i int) {
	for ctx.Err() == nil {
		time.Sleep(time.Second + s.upTo(2*time.Second))
		switch {
		case s.dead[i] && s.chance(0.1):
			s.restart(i)
		case s.dead[i]:
		case s.chance(0.01):
			s.dead[i] = true // a power cut
			s.transport.failWith(nodeName(i), errLost)
		case s.chance(0.02):
			s.restart(i)
		case s.chance(0.1):
			s.transport.failWith(nodeName(i), dispatch.ErrBusy)
		case s.chance(0.1):
			s.transport.failWith(nodeName(i), dispatch.ErrRefused)
		case s.chance(0.5):
			s.transport.failWith(nodeName(i), nil)
		}
		if !s.dead[i] {
			s.heartbeatNode(i)
		}
	}
}

// declaration returns the change of what a node declares.
func (s *chaos) declaration(i int) func(*core.Change) {
	return func(p *core.Change) {
		if s.services != nil {
			p.Services = s.services(i)
		}
	}
}

// restart registers a node again, which has lost some of its jobs.
func (s *chaos) restart(i int) {
	for _, job := range s.transport.heldBy(nodeName(i)) {
		if s.chance(0.5) {
			s.transport.drop(dispatch.Placement{Job: job.Job, Node: core.NodeID(nodeName(i)), Attempt: job.Attempt})
		}
	}
	err := s.retryReport(func() error {
		return s.register(nodeName(i), chaosSlots, store.Activity{Lists: true, Active: s.transport.heldBy(nodeName(i))}, s.declaration(i))
	})
	if err != nil {
		s.t.Errorf("register: %v", err)
	}
	s.dead[i] = false
	s.transport.failWith(nodeName(i), nil)
}

// heartbeatNode sends a heartbeat; the node stops the jobs that it should stop.
func (s *chaos) heartbeatNode(i int) {
	for _, job := range s.heartbeat(nodeName(i), s.transport.heldBy(nodeName(i))) {
		s.transport.drop(dispatch.Placement{Job: job.Job, Node: core.NodeID(nodeName(i)), Attempt: job.Attempt})
	}
}

// breakStore makes operations of the store fail or lose their replies from time to time.
func (s *chaos) breakStore(ctx context.Context) {
	operations := []string{"reserve", "create", "apply", "release", "commit", "get"}
	for ctx.Err() == nil {
		time.Sleep(s.upTo(3 * time.Second))
		s.mu.Lock()
		operation := operations[s.rng.IntN(len(operations))]
		down, times := s.rng.IntN(2) == 0, 1+s.rng.IntN(4)
		s.mu.Unlock()
		s.store.failNext(down, operation, times)
	}
	for _, operation := range operations {
		s.store.failNext(true, operation, 0)
		s.store.failNext(false, operation, 0)
	}
}
