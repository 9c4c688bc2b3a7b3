package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/waiting"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestCancelWaitingOfAnotherInstance: an operator cancels a request that waits on the instance that is asked and, because its client has
// repeated it there, on another one.
func TestCancelWaitingOfAnotherInstance(t *testing.T) {
	t.Parallel()
	cfg := fastConfig()
	patient(&cfg)
	withoutRetries(&cfg)
	instances := startCluster(t, redistest.Start(t).URL(), cfg, fleet.Direct(nil))
	node := declaration("en", "zh")
	node.MaxJobs = 1
	retryWhileDown(t, func() error {
		_, err := instances[0].Nodes.Register(t.Context(), "node-a", node, nodes.Caller{}, store.Activity{Lists: true})
		return err
	})
	waitUntil(t, "the node is seen", 10*time.Second, func() bool { return instances.allSee("node-a") })
	retryWhileDown(t, func() error {
		p, err := instances[0].Jobs.Dispatch(t.Context(), requestFor("busy"))
		if err != nil {
			return err
		}
		return instances[0].Jobs.Reports.Ack(t.Context(), dispatch.Report{Job: p.Job, Holder: core.Holder{Attempt: p.Attempt, Node: p.Node}})
	})
	waits, leave := context.WithCancel(t.Context())
	defer leave()
	answers := make(chan error, len(instances))
	for _, in := range instances {
		go func() {
			now := time.Now()
			r := requestFor("waits")
			r.Wait = &dispatch.Wait{Since: now, Until: now.Add(time.Minute), Join: now}
			_, err := in.Jobs.Dispatch(waits, r)
			answers <- err
		}()
	}
	var id core.JobID
	waitUntil(t, "the request waits on both", 10*time.Second, func() bool {
		v, err := instances[1].Jobs.Waiting.View(t.Context(), waiting.ViewParams{Limit: 2})
		if err != nil || len(v.Requests) != 2 {
			return false
		}
		id = v.Requests[0].Job
		return true
	})
	retryWhileDown(t, func() error {
		w, err := instances[1].Jobs.CancelWaiting(t.Context(), id, nil)
		if err == nil && w == nil {
			t.Errorf("%s does not wait", id)
		}
		return err
	})
	for range instances {
		select {
		case err := <-answers:
			var e *wire.Error
			if !errors.As(err, &e) || e.Code != wire.Cancelled {
				t.Errorf("the request ended with %v, want %s", err, wire.Cancelled)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the request still waits")
		}
	}
}
