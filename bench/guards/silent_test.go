package guards

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

var silentFor = flag.Duration("silent-for", 2*time.Second, "how long TestSilentNode dispatches to each fleet")

const (
	silentFleet = 20 // nodes
	silentSlots = 4
	silentRate  = 100 // jobs a second, which use about half of the slots
	// silentTolerance is how much higher the 99th percentile of the jobs may be in a fleet with a silent node.
	silentTolerance = 1.2
	silentExcluded  = 2 // jobs of the silent node
)

// TestSilentNode compares how long jobs take in a fleet without and with one node that acknowledges jobs and then says nothing. The first
// two jobs of that node are not counted: by them it is found out.
func TestSilentNode(t *testing.T) {
	without, with := newSilentRun(t, false), newSilentRun(t, true)
	base, got := without.p99(), with.p99()
	t.Logf("p99 of %d jobs without a silent node: %v; of %d jobs beside one: %v, %.3f times as long; it got %d jobs",
		len(without.took), base.Round(time.Millisecond), len(with.took), got.Round(time.Millisecond), got.Seconds()/base.Seconds(), with.silent)
	if with.silent < silentExcluded {
		t.Errorf("the silent node got %d jobs: nothing was shown", with.silent)
	}
	// It fills its slots before it is found out, and may do so again when its jobs have timed out.
	if limit := 2 * silentSlots; with.silent > limit {
		t.Errorf("the silent node got %d jobs, want at most %d", with.silent, limit)
	}
	if *judge && got.Seconds() > silentTolerance*base.Seconds() {
		t.Errorf("beside a silent node the 99th percentile is %.3f times as high", got.Seconds()/base.Seconds())
	}
}

// silentRun is one fleet, and how long its jobs took from their dispatch to the end of the node's work.
type silentRun struct {
	mu       sync.Mutex
	began    map[string]time.Time // of jobs that have not ended
	excluded map[string]bool
	silent   int // jobs that the silent node got
	took     []time.Duration
}

// newSilentRun dispatches to a fleet of its own.
func newSilentRun(t *testing.T, silent bool) *silentRun {
	t.Helper()
	r := &silentRun{began: make(map[string]time.Time), excluded: make(map[string]bool)}
	t.Run(fmt.Sprintf("silent=%v", silent), func(t *testing.T) {
		s, url := inprocess.Serve(t, 0, 0, func(c *config.Config) {
			if !*judge { // the jobs of the silent node end with their attempts
				c.Scheduler.Dispatch.AttemptTimeoutMS = 4000
			}
		})
		for i := range silentFleet {
			handle := r.work
			if silent && i == 0 {
				handle = r.ignore
			}
			fleet.StartNodes(t, handle, node.Config{
				URL: url, ID: fmt.Sprintf("node-%02d", i), Slots: silentSlots, ShutdownTimeout: time.Millisecond,
				Declaration: wire.Declaration{SemanticLangs: []string{"en", "zh"}},
			})
		}
		for s.Fleet.Len() < silentFleet {
			run.Sleep(t.Context(), 10*time.Millisecond)
		}
		inprocess.CallAtRate(t.Context(), *silentFor, silentRate, func(int) { r.dispatch(t, s) })
		for r.unfinished() > 0 {
			run.Sleep(t.Context(), 10*time.Millisecond)
		}
	})
	return r
}

// dispatch dispatches a job. After a machine has stalled there may be more jobs at once than slots: unless latencies are judged, a job waits
// for one then.
func (r *silentRun) dispatch(t *testing.T, s *scheduler.Scheduler) {
	for {
		err := r.tryDispatch(t.Context(), s)
		var refusal *wire.Error
		if err == nil {
			return
		}
		if *judge || !errors.As(err, &refusal) || refusal.Code != wire.AllCandidatesFullOrFailed {
			t.Error(err)
			return
		}
		run.Sleep(t.Context(), 10*time.Millisecond)
	}
}

// tryDispatch dispatches a job. Its id is known when it has been delivered.
func (r *silentRun) tryDispatch(ctx context.Context, s *scheduler.Scheduler) error {
	r.mu.Lock()
	defer r.mu.Unlock() // nodes note nothing before the id is known
	began := time.Now()
	p, err := s.Jobs.Dispatch(ctx, dispatch.Request{Unique: true, Spec: core.Spec{
		Request: core.RequestID(uuid.NewString()), Session: "room", Direction: core.Direction{Src: "en", Tgt: "zh"},
	}})
	if err == nil {
		r.began[string(p.Job)] = began
	}
	return err
}

// work does a job.
func (r *silentRun) work(ctx context.Context, job *node.Job) (node.Result, error) {
	run.Sleep(ctx, 200*time.Millisecond+rand.N(200*time.Millisecond))
	r.mu.Lock()
	defer r.mu.Unlock()
	if began, running := r.began[job.ID]; running {
		delete(r.began, job.ID)
		if !r.excluded[job.ID] {
			r.took = append(r.took, time.Since(began))
		}
	}
	return node.Result{TextSrc: "a", TextTgt: "b"}, nil
}

// ignore accepts a job and does nothing.
func (r *silentRun) ignore(ctx context.Context, job *node.Job) (node.Result, error) {
	r.mu.Lock()
	if r.silent++; r.silent <= silentExcluded {
		r.excluded[job.ID] = true
	}
	r.mu.Unlock()
	<-ctx.Done()
	return node.Result{}, ctx.Err()
}

// unfinished returns how many jobs have not ended.
func (r *silentRun) unfinished() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.began)
}

func (r *silentRun) p99() time.Duration { return stats.Percentile(r.took, 0.99) }
