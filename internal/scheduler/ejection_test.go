package scheduler_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/sim"
	"github.com/lingua-scheduler/lingua/wire"
)

var ejectionFor = flag.Duration("ejection-for", 15*time.Second, "how long TestFailingNode sends jobs")

// failingNode is the node that fails each of its jobs at once.
const failingNode = "node-00"

// shareOfFailingNode sends jobs to 20 nodes, of which one fails each job at once, and returns which share of the attempts that node got.
func shareOfFailingNode(t *testing.T, ejection bool) float64 {
	t.Helper()
	cfg := config.Default()
	cfg.Server.Port = 0
	cfg.Scheduler.OutlierEjection.Enabled = ejection
	peer := sim.NewAPI(startScheduler(t, cfg))
	defer peer.Close()
	const nodes = 20
	fleet := make([]*sim.CallbackNode, nodes)
	slots := 4
	for i := range fleet {
		o := sim.CallbackNodeOptions{
			ID:          fmt.Sprintf("node-%02d", i),
			Declaration: wire.Declaration{SemanticLangs: []string{"en", "zh"}, MaxConcurrentJobs: &slots},
			JobDuration: func() time.Duration { return 200*time.Millisecond + rand.N(200*time.Millisecond) },
		}
		if o.ID == failingNode {
			o.Fail, o.JobDuration = 1, func() time.Duration { return time.Millisecond }
		}
		node, err := sim.StartCallbackNode(t.Context(), peer, o)
		if err != nil {
			t.Fatal(err)
		}
		defer node.Kill()
		fleet[i] = node
	}
	var calls sync.WaitGroup
	// On a busy machine they take longer; how many attempts it takes to notice the failing node does not depend on that.
	const interval = 10 * time.Millisecond // about half of the slots are in use
	for i := range int(*ejectionFor / interval) {
		calls.Go(func() {
			in := wire.DispatchRequest{RequestID: fmt.Sprint("req-", i), SessionID: "s", SrcLang: "en", TgtLang: "zh"}
			err := peer.Post(t.Context(), "/v1/dispatch/f2f", in, new(wire.DispatchResponse))
			if e := new(wire.Error); err != nil && !errors.As(err, &e) {
				t.Error(err)
			}
		})
		backoff.Sleep(t.Context(), interval)
	}
	calls.Wait()
	all, failing := 0, 0
	for _, n := range fleet {
		got := n.Stats().Accepted
		all += got
		if n.ID() == failingNode {
			failing = got
		}
	}
	share := float64(failing) / float64(all)
	t.Logf("ejection %v: of %d attempts the failing node got %d (%.2f %%)", ejection, all, failing, 100*share)
	return share
}

// TestFailingNode: a node that fails its jobs at once is never busy and attracts more jobs than others. With the ejection of outliers it
// gets few. In full:
//
//	go test -v -run TestFailingNode ./internal/scheduler -ejection-for 1m
func TestFailingNode(t *testing.T) {
	t.Parallel()
	var without, with float64
	t.Run("fleets", func(t *testing.T) { // which run at the same time
		t.Run("without ejection", func(t *testing.T) {
			t.Parallel()
			without = shareOfFailingNode(t, false)
		})
		t.Run("with ejection", func(t *testing.T) {
			t.Parallel()
			with = shareOfFailingNode(t, true)
		})
	})
	if without < 1.0/20 {
		t.Errorf("without ejection the failing node got %.2f %% of the attempts, not more than its share", 100*without)
	}
	if with > 0.02 {
		t.Errorf("with ejection the failing node got %.2f %% of the attempts, want less than 2 %%", 100*with)
	}
}
