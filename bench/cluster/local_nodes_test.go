package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// localNodes simulates the nodes of an instance within its process, so that what they cost in Redis is measured and nothing else.
type localNodes struct {
	inprocess.Nodes
	scheduler *scheduler.Scheduler
	hold      atomic.Bool
	beats     atomic.Int64
	running   sync.WaitGroup
	ids       []core.NodeID
}

// deliver is fleet.Direct.
func (n *localNodes) deliver(ctx context.Context, to *core.Node, a *wire.Assignment, r dispatch.Report) error {
	if n.hold.Load() {
		r.Epoch = core.Epoch(a.Epoch)
		return n.Jobs.Reports.Ack(ctx, r)
	}
	return n.Finish(ctx, to, a, r)
}

const (
	localWorkers    = 16 // registrations and heartbeats that are under way at once
	registerRetries = 50 // of a registration that the store did not answer in time
)

// execute executes the part of a command that is about the simulated nodes.
func (n *localNodes) execute(ctx context.Context, cmd command) error {
	n.hold.Store(cmd.Hold)
	instance := n.scheduler.Bus.Instance()
	for i := range cmd.Register {
		n.ids = append(n.ids, withinID(i))
	}
	for i := range cmd.Connect {
		n.ids = append(n.ids, core.NodeID(fmt.Sprintf("%s-%05d", instance, i)))
	}
	var mu sync.Mutex
	var failures error
	slots := 4
	run.ForEach(localWorkers, n.ids[len(n.ids)-cmd.Connect:], func(id core.NodeID) {
		p := core.Change{Declaration: core.Declaration{Capability: core.Capability{Semantic: core.LangSet{"fr", "it"}}, MaxJobs: slots, Owner: instance}}
		_, err := n.scheduler.Nodes.Register(ctx, id, p, nodes.Caller{Connection: 1}, store.Activity{})
		for range registerRetries { // like any node it tries again
			if err == nil || !run.Sleep(ctx, 200*time.Millisecond) {
				break
			}
			_, err = n.scheduler.Nodes.Register(ctx, id, p, nodes.Caller{Connection: 1}, store.Activity{})
		}
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			failures = errors.Join(failures, err)
		}
	})
	if cmd.Beat {
		n.running.Go(func() { n.sendHeartbeats(ctx) })
	}
	return failures
}

// sendHeartbeats lets every node send a heartbeat in each interval, spread over it, until the context ends.
func (n *localNodes) sendHeartbeats(ctx context.Context) {
	interval := 5 * time.Second
	var sending sync.WaitGroup
	defer sending.Wait()
	permits := make(chan struct{}, localWorkers)
	began := time.Now()
	for i := 0; run.Sleep(ctx, time.Until(began.Add(time.Duration(i)*interval/time.Duration(len(n.ids))))); i++ {
		id, load := n.ids[i%len(n.ids)], core.Load{CPU: float64(i%100) / 100, GPU: 0.5, Memory: 0.4}
		permits <- struct{}{}
		sending.Go(func() {
			defer func() { <-permits }()
			if _, err := n.scheduler.Nodes.Heartbeat(ctx, nodes.Heartbeat{Node: id, Change: core.Change{Declaration: core.Declaration{Health: core.HealthReady}, Load: &load}}); err == nil {
				n.beats.Add(1)
			}
		})
	}
}
