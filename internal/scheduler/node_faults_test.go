package scheduler_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

var dispatches = flag.Int("dispatches", 1200, "how many jobs TestFleetUnderFaults dispatches")

const (
	stressClients = 64
	stressNodes   = 50
	stressSlots   = 2
)

// TestFleetUnderFaults sends jobs through a whole scheduler over HTTP, to a fleet of which one node in ten
// takes jobs and reports nothing and one in twenty fails every job. No node that answers may ever have more
// jobs than it has slots, every job must end, and no lease may be left.
func TestFleetUnderFaults(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Server.Port = 0
	n, d := &cfg.Scheduler.Nodes, &cfg.Scheduler.Dispatch
	n.HeartbeatIntervalMS, n.PresenceTTLMS = 1000, 4000
	d.HeartbeatStaleMS, d.ACKTimeoutMS, d.AttemptTimeoutMS, d.JobTimeoutMS = 4000, 900, 3000, 60_000 // a silent node keeps its slots for an attempt
	cfg.Scheduler.TaskBinding.ReservedTTLSeconds = 2
	cfg.Scheduler.TaskBinding.LeaseSeconds = 3600
	cfg.Scheduler.Observability.PathWarnMS = 60_000
	s, url := runTest(t, func() *scheduler.Scheduler { return newScheduler(t, cfg) })
	peer := lab.NewAPI(url)
	t.Cleanup(peer.Close)
	nodes := startFaultyNodes(t, peer)
	began := time.Now()
	jobs := sendJobs(t, peer)
	sent := time.Since(began)

	waitUntil(t, "every job to end", 2*time.Minute, func() bool { return s.Jobs.InFlight() == 0 })
	states := make(map[core.State]int)
	for _, id := range jobs {
		job, err := s.Store.Get(t.Context(), id)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		states[job.State]++
		if !job.State.Terminal() {
			t.Errorf("%s is %s: %+v", id, job.State, job.History)
		}
	}
	maxJobs := 0
	for _, node := range nodes {
		stats := node.Stats()
		maxJobs = max(maxJobs, stats.MaxWorking)
		if stats.Rejected > 0 {
			t.Errorf("%s got %d jobs beyond its %d slots", node.ID, stats.Rejected, stressSlots)
		}
	}
	// The slots of the silent nodes are free again when their leases expire.
	waitUntil(t, "every slot to be free", waitLimit, func() bool { return slotsTaken(t, s) == 0 })
	t.Logf("%d jobs in %v (%.0f/s): %v; at most %d jobs on a node of %d slots",
		len(jobs), sent.Round(time.Millisecond), float64(len(jobs))/sent.Seconds(), states, maxJobs, stressSlots)
}

// startFaultyNodes starts the nodes.
func startFaultyNodes(t *testing.T, peer *lab.API) nodeFleet {
	t.Helper()
	nodes := make(nodeFleet, stressNodes)
	slots := stressSlots
	for i := range nodes {
		o := fleet.CallbackOptions{
			ID: fmt.Sprintf("node-%02d", i), API: func() *lab.API { return peer }, OmitsActive: i%2 == 0,
			Declaration: wire.Declaration{SemanticLangs: []string{"en", "zh"}, MaxConcurrentJobs: &slots},
			Work: func(ctx context.Context, _ *wire.Assignment) (string, error) {
				run.Sleep(ctx, rand.N(3*time.Millisecond))
				if i%20 == 7 {
					return "", fleet.JobError("MODEL_LOAD_FAILED")
				}
				return "…", ctx.Err()
			},
		}
		if i%10 == 3 {
			o.OmitsActive, o.Intercept = true, func(http.ResponseWriter, *http.Request, *wire.Assignment) bool { return true }
		}
		nodes[i] = startCallbackNode(t, o)
	}
	return nodes
}

// sendJobs runs clients that dispatch until enough jobs were accepted, and returns the jobs. A client that is
// refused tries the same request again a little later.
func sendJobs(t *testing.T, peer *lab.API) []core.JobID {
	t.Helper()
	jobs := make([]core.JobID, *dispatches)
	var next, refused atomic.Int64
	var clients sync.WaitGroup
	for range stressClients {
		clients.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(jobs) {
					return
				}
				in := wire.DispatchRequest{RequestID: fmt.Sprint("req-", i), SessionID: "session-1", SrcLang: "en", TgtLang: "zh"}
				for {
					var out wire.DispatchResponse
					err := peer.Post(t.Context(), "/v1/dispatch/f2f", in, &out)
					var e *wire.Error
					// On a busy machine a decision may not be made in time; the request is then refused.
					if errors.As(err, &e) && e.JobID == "" && (e.Code == wire.AllCandidatesFullOrFailed || e.Code == wire.SchedulerDependencyDown) {
						refused.Add(1)
						run.Sleep(t.Context(), rand.N(20*time.Millisecond))
						continue
					}
					if err != nil && (e == nil || e.JobID == "") {
						t.Errorf("dispatch %d: %v", i, err)
						return
					}
					jobs[i] = core.JobIDFor("", core.RequestID(in.RequestID))
					break
				}
			}
		})
	}
	clients.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("refused, and tried again: %d", refused.Load())
	return jobs
}

func slotsTaken(t *testing.T, s *scheduler.Scheduler) int {
	t.Helper()
	all, err := s.Store.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, n := range all {
		var o [1]store.Occupancy
		if err := s.Store.Probe(t.Context(), []core.NodeID{n.Node.ID}, o[:]); err != nil {
			t.Fatal(err)
		}
		taken += o[0].InFlight()
	}
	return taken
}
