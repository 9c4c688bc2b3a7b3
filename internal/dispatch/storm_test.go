package dispatch_test

import (
	"context"
	"errors"
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

// TestStorm lets everything go wrong at random at once: nodes that fail, refuse, forget, die, return and
// restart, a store that is away or loses replies, cancels, repeats. When it is over every accepted job has
// ended once, every node was held to its slots, and nothing is left behind.
func TestStorm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			play(t, func(w *world) { (&storm{world: w, rng: rand.New(rand.NewPCG(seed, 99))}).run() })
		})
	}
}

const (
	stormNodes  = 8
	stormSlots  = 2
	stormMinute = 3 * time.Minute
)

type storm struct {
	*world
	mu  sync.Mutex
	rng *rand.Rand

	accepted map[core.JobID]bool
	dead     [stormNodes]bool
	over     bool
}

// chance is a draw; the generator is shared.
func (s *storm) chance(p float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.Float64() < p
}

func (s *storm) some(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.rng.Int64N(int64(d)))
}

func nodeName(i int) string { return fmt.Sprint("node-", i) }

func (s *storm) run() {
	s.accepted = make(map[core.JobID]bool)
	s.sent.hook = s.work
	for i := range stormNodes {
		s.node(nodeName(i), stormSlots)
	}
	ctx, stop := context.WithTimeout(s.t.Context(), stormMinute)
	defer stop()
	var wg sync.WaitGroup
	for i := range stormNodes {
		wg.Go(func() { s.liveNode(ctx, i) })
	}
	for i := range 12 {
		wg.Go(func() { s.speak(ctx, i) })
	}
	wg.Go(func() { s.breakStore(ctx) })
	wg.Wait()
	s.settle()
}

// settle lets the storm pass: every node is alive and well, and time goes by until everything must be over.
func (s *storm) settle() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	for i := range stormNodes {
		s.sent.fails(nodeName(i), nil)
		if s.dead[i] {
			s.restart(i)
		}
	}
	for range 70 {
		time.Sleep(time.Second)
		for i := range stormNodes {
			s.pulse(i)
		}
		synctest.Wait()
	}
	for id := range s.accepted {
		if j := s.job(id); !j.State.Terminal() {
			s.t.Errorf("%s is still %s: %+v", id, j.State, j.History)
		}
	}
	if n := s.d.InFlight(); n != 0 {
		s.t.Errorf("%d flights are left", n)
	}
	for i := range stormNodes {
		s.wantFree(nodeName(i))
		leases, err := s.mem.Orphans(s.t.Context(), core.NodeID(nodeName(i)))
		if err != nil || len(leases) != 0 {
			s.t.Errorf("%s still names %v", nodeName(i), leases)
		}
	}
	if len(s.accepted) < 100 {
		s.t.Errorf("only %d jobs were accepted: it was no storm", len(s.accepted))
	}
}

// speak is a caller that now and then repeats itself or changes its mind.
func (s *storm) speak(ctx context.Context, who int) {
	for i := 0; ctx.Err() == nil; i++ {
		time.Sleep(s.some(2 * time.Second))
		sp := spec(request(fmt.Sprintf("req-%d-%d", who, i)))
		id := core.JobIDFor("", sp.Request)
		times := 1
		if s.chance(0.3) {
			times = 3
		}
		var calls sync.WaitGroup
		for range times {
			calls.Go(func() {
				p, err := s.d.Dispatch(s.t.Context(), dispatch.Request{Spec: sp})
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
			_, _, _ = s.d.Cancel(s.t.Context(), id) // it may not exist, or the store may be away
		}
	}
}

// work is what a node does with a job it was handed: called by the courier when a delivery arrives.
func (s *storm) work(a *wire.Assignment) {
	p := dispatch.Placement{Job: core.JobID(a.JobID), Node: core.NodeID(a.NodeID), Attempt: a.AttemptID}
	if held := len(s.sent.holding(a.NodeID)); held > stormSlots {
		s.t.Errorf("%s holds %d jobs on %d slots", a.NodeID, held, stormSlots)
	}
	if s.chance(0.1) {
		return // it has the job and never says so; it goes on listing it until it is told to stop
	}
	go func() {
		time.Sleep(s.some(3 * time.Second)) // sometimes too late
		if err := s.insist(func() error { return s.ack(p) }); err != nil {
			s.sent.drop(p)
			return
		}
		time.Sleep(s.some(4 * time.Second))
		switch {
		case s.chance(0.1):
			s.sent.drop(p) // it loses the job without a word
		case s.chance(0.15):
			_ = s.insist(func() error { return s.fail(p, core.ReasonNodeFailed) })
		default:
			_ = s.insist(func() error { return s.done(p) })
			if s.chance(0.2) {
				_ = s.done(p) // and says it again
			}
		}
	}()
}

// insist repeats a report until there is an answer that a repeat would not change.
func (s *storm) insist(say func() error) error {
	for {
		err := say()
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.SchedulerDependencyDown {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// liveNode is a node's own life: heartbeats, deaths, restarts, refusals.
func (s *storm) liveNode(ctx context.Context, i int) {
	for ctx.Err() == nil {
		time.Sleep(time.Second + s.some(2*time.Second))
		switch {
		case s.dead[i] && s.chance(0.1):
			s.restart(i)
		case s.dead[i]:
		case s.chance(0.01):
			s.dead[i] = true // a power cut
			s.sent.fails(nodeName(i), errLost)
		case s.chance(0.02):
			s.restart(i)
		case s.chance(0.1):
			s.sent.fails(nodeName(i), dispatch.ErrBusy)
		case s.chance(0.1):
			s.sent.fails(nodeName(i), dispatch.ErrRefused)
		case s.chance(0.5):
			s.sent.fails(nodeName(i), nil)
		}
		if !s.dead[i] {
			s.pulse(i)
		}
	}
}

// restart is a node that begins anew and has forgotten some of its jobs.
func (s *storm) restart(i int) {
	for _, job := range s.sent.holding(nodeName(i)) {
		if s.chance(0.5) {
			s.sent.drop(dispatch.Placement{Job: job.Job, Node: core.NodeID(nodeName(i)), Attempt: job.Attempt})
		}
	}
	err := s.insist(func() error {
		return s.register(nodeName(i), stormSlots, store.Activity{Lists: true, Active: s.sent.holding(nodeName(i))})
	})
	if err != nil {
		s.t.Errorf("register: %v", err)
	}
	s.dead[i] = false
	s.sent.fails(nodeName(i), nil)
}

// pulse is a heartbeat; the node stops what it is told to stop.
func (s *storm) pulse(i int) {
	for _, job := range s.beat(nodeName(i), s.sent.holding(nodeName(i))) {
		s.sent.drop(dispatch.Placement{Job: job.Job, Node: core.NodeID(nodeName(i)), Attempt: job.Attempt})
	}
}

// breakStore takes the store away now and then, or makes it lose replies.
func (s *storm) breakStore(ctx context.Context) {
	operations := []string{"reserve", "create", "apply", "release", "commit", "get"}
	for ctx.Err() == nil {
		time.Sleep(s.some(3 * time.Second))
		s.mu.Lock()
		operation := operations[s.rng.IntN(len(operations))]
		down, times := s.rng.IntN(2) == 0, 1+s.rng.IntN(4)
		s.mu.Unlock()
		s.store.breakNext(down, operation, times)
	}
	for _, operation := range operations {
		s.store.breakNext(true, operation, 0)
		s.store.breakNext(false, operation, 0)
	}
}
