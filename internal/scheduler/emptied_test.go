package scheduler_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestRunningJobSurvivesAnEmptiedStore: a job that its node works on while Redis is emptied is not cancelled, and its result is taken,
// whether the node is connected to the instance that dispatched the job or to another.
func TestRunningJobSurvivesAnEmptiedStore(t *testing.T) {
	t.Parallel()
	for at, name := range []string{"the node is connected to the dispatcher", "the node is connected to another instance"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			cfg := fastConfig()
			withoutRetries(&cfg)
			instances := startCluster(t, redis.URL(), cfg, nil)
			started, finish := make(chan struct{}, 1), make(chan struct{})
			var cancelled error
			fleet.StartNodes(t, func(ctx context.Context, _ *node.Job) (node.Result, error) {
				started <- struct{}{}
				<-finish
				cancelled = ctx.Err()
				return node.Result{TextTgt: "done"}, nil
			}, node.Config{URL: instances[at].peer.URL, ID: "n1", Slots: 2, Declaration: wire.Declaration{SemanticLangs: []string{"en", "zh"}}})
			waitUntil(t, "both instances to see the node", waitLimit, func() bool { return instances.allSee("n1") })
			before := instances[0].Fleet.Node("n1").Epoch()

			var placed wire.DispatchResponse
			retryWhileDown(t, func() error {
				return instances[0].peer.Post(t.Context(), "/v1/dispatch/f2f", wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "zh"}, &placed)
			})
			<-started
			do(t, redis, "FLUSHALL")
			waitUntil(t, "the node to have registered again", waitLimit, func() bool {
				n := instances[0].Fleet.Node("n1")
				return n != nil && n.Epoch() != before
			})
			waitUntil(t, "the job to be known in the new epoch", waitLimit, func() bool {
				job, err := instances[0].Jobs.Job(t.Context(), core.JobID(placed.JobID))
				return err == nil && job.Epoch == instances[0].Fleet.Node("n1").Epoch()
			})
			close(finish)
			var job *core.Job
			var err error
			waitUntil(t, "the job to end", waitLimit, func() bool {
				job, err = instances[1].Jobs.Job(t.Context(), core.JobID(placed.JobID))
				return err == nil && job.State.Terminal()
			})
			if got := fmt.Sprint(job.State, " in attempt ", job.Attempt); got != "DONE in attempt 1" || cancelled != nil {
				t.Errorf("%s, cancelled: %v", got, cancelled)
			}
		})
	}
}
