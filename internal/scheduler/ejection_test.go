package scheduler_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

var ejectionFor = flag.Duration("ejection-for", 0, "how long TestFailingNode sends jobs; 0: as long as it takes")

const (
	failingNode      = core.NodeID("node-00") // fails each of its jobs at once
	ejectionNodes    = 20
	ejectionClients  = 16
	ejectionHeld     = 60  // jobs of the other nodes that do not end: three of four slots are in use, however fast the machine is
	ejectionAttempts = 600 // enough for the share of a node to be no chance: it is 18 %, with a standard deviation of 1.6 %
	afterEjection    = 400
	// judgedAttempts is from how many attempts on the share of the failing node is judged: it does not grow with them until it is on probation.
	judgedAttempts = 5000
)

// heldJobs are jobs that run: the oldest ends when there are too many.
type heldJobs struct {
	mu   sync.Mutex
	max  int
	held []chan struct{}
}

// run returns when the job is to end.
func (h *heldJobs) run(context.Context, *wire.Assignment) (string, error) {
	ends := make(chan struct{})
	h.mu.Lock()
	h.held = append(h.held, ends)
	h.end()
	h.mu.Unlock()
	<-ends
	return "…", nil
}

// keep sets how many jobs do not end.
func (h *heldJobs) keep(jobs int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.max = jobs
	h.end()
}

// end ends the jobs that are too many.
func (h *heldJobs) end() {
	for len(h.held) > h.max {
		close(h.held[0])
		h.held = h.held[1:]
	}
}

// failingFleet is a scheduler with nodes of which one fails.
type failingFleet struct {
	t     *testing.T
	s     *scheduler.Scheduler
	peer  *lab.API
	nodes nodeFleet
	jobs  heldJobs // of the nodes that do not fail
	began time.Time
	sent  int
}

func startFailingFleet(t *testing.T, ejection bool) *failingFleet {
	t.Helper()
	cfg := config.Default()
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 0
	cfg.Scheduler.OutlierEjection.Enabled, cfg.Scheduler.Stats.IntervalSeconds = ejection, 1
	s, url := runTest(t, func() *scheduler.Scheduler { return newScheduler(t, cfg) })
	f := &failingFleet{t: t, s: s, peer: lab.NewAPI(url), nodes: make(nodeFleet, ejectionNodes), began: time.Now()}
	t.Cleanup(f.peer.Close)
	slots := 4
	for i := range f.nodes {
		o := fleet.CallbackOptions{
			ID: fmt.Sprintf("node-%02d", i), API: func() *lab.API { return f.peer }, Work: f.jobs.run,
			Declaration: wire.Declaration{SemanticLangs: []string{"en", "zh"}, MaxConcurrentJobs: &slots},
		}
		if core.NodeID(o.ID) == failingNode {
			o.Work = func(ctx context.Context, _ *wire.Assignment) (string, error) {
				run.Sleep(ctx, time.Millisecond)
				return "", fleet.JobError("MODEL_LOAD_FAILED")
			}
		}
		f.nodes[i] = startCallbackNode(t, o)
	}
	t.Cleanup(func() { f.jobs.keep(0) })
	return f
}

// send sends jobs while more says so, by the number of jobs that were sent, and waits for their end.
func (f *failingFleet) send(more func(sent int) bool) {
	f.t.Helper()
	f.jobs.keep(ejectionHeld)
	var clients sync.WaitGroup
	var sent atomic.Int64
	for range ejectionClients {
		clients.Go(func() {
			for i := int(sent.Add(1)); more(i - 1); i = int(sent.Add(1)) {
				in := wire.DispatchRequest{RequestID: fmt.Sprint("req-", f.sent+i), SessionID: "s", SrcLang: "en", TgtLang: "zh"}
				err := f.peer.Post(f.t.Context(), "/v1/dispatch/f2f", in, new(wire.DispatchResponse))
				if e := new(wire.Error); err != nil && !errors.As(err, &e) {
					f.t.Error(err)
					return
				}
				run.Sleep(f.t.Context(), rand.N(40*time.Millisecond))
			}
		})
	}
	clients.Wait()
	f.sent += int(sent.Load())
	f.jobs.keep(0)
	waitUntil(f.t, "every job to end", waitLimit, func() bool { return f.s.Jobs.InFlight() == 0 })
}

// attempts returns how many attempts the nodes got, and how many of them the failing one.
func (f *failingFleet) attempts() (all, failing int) {
	for _, n := range f.nodes {
		got := n.Stats().Accepted
		all += got
		if n.ID == string(failingNode) {
			failing = got
		}
	}
	return all, failing
}

// share returns which share of the attempts the failing node got.
func (f *failingFleet) share() float64 {
	all, failing := f.attempts()
	share := float64(failing) / float64(all)
	f.t.Logf("of %d attempts the failing node got %d (%.2f %%)", all, failing, 100*share)
	return share
}

// TestFailingNode: a node that fails its jobs at once is never busy and attracts more jobs than others. With the ejection of outliers it
// gets few. In full:
//
//	go test -v -run TestFailingNode ./internal/scheduler -ejection-for 1m
func TestFailingNode(t *testing.T) {
	t.Parallel()
	t.Run("without ejection", func(t *testing.T) {
		t.Parallel()
		f := startFailingFleet(t, false)
		f.send(func(sent int) bool { return sent < ejectionAttempts || time.Since(f.began) < *ejectionFor })
		if share := f.share(); share < 1.0/ejectionNodes {
			t.Errorf("the failing node got %.2f %% of the attempts, not more than its share", 100*share)
		}
	})
	t.Run("with ejection", func(t *testing.T) {
		t.Parallel()
		f := startFailingFleet(t, true)
		ejected := func() bool { return f.s.Fleet.Node(failingNode).Summary().Ejected() }
		f.send(func(int) bool { return !ejected() && time.Since(f.began) < waitLimit })
		_, before := f.attempts()
		f.send(func(sent int) bool { return sent < afterEjection })
		if _, after := f.attempts(); !ejected() || after > before {
			t.Errorf("it is ejected: %v; it got %d attempts before and %d after", ejected(), before, after-before)
		}
		f.send(func(int) bool { return time.Since(f.began) < *ejectionFor })
		if share := f.share(); share > 0.02 && f.sent > judgedAttempts {
			t.Errorf("the failing node got %.2f %% of the attempts, want less than 2 %%", 100*share)
		}
	})
}
