package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// fullLoss is from how many nodes on TestLosingMostNodesAtOnce is the measurement: below that it also runs beside other tests,
// and times say nothing.
const fullLoss = 10_000

// crowd is many nodes that send heartbeats to any of two instances, until some of them are lost.
type crowd struct {
	t     *testing.T
	w     world
	ids   []core.NodeID
	every time.Duration
	left  atomic.Int64 // how many, from the first on, still send heartbeats
}

// beat sends heartbeats until the context ends, those of all nodes spread over the interval.
func (c *crowd) beat(ctx context.Context) {
	const parts = 50
	var work sync.WaitGroup
	for at := range 16 {
		work.Go(func() {
			for round := 0; backoff.Sleep(ctx, c.every/parts); round++ {
				for i := round%parts + at*parts; i < int(c.left.Load()); i += 16 * parts {
					b := nodes.Heartbeat{Node: c.ids[i], Activity: store.Activity{Lists: true}}
					_, _ = c.w[i%len(c.w)].Nodes.Heartbeat(ctx, b) // one that failed is made up for by the next
				}
			}
		})
	}
	work.Wait()
}

// dispatches measures how long dispatches take, at a steady rate, until the context ends. It counts those that were refused.
func (c *crowd) dispatches(ctx context.Context, name string) (times []time.Duration, refused int) {
	var mu sync.Mutex
	var calls sync.WaitGroup
	for i := 0; backoff.Sleep(ctx, 5*time.Millisecond); i++ {
		calls.Go(func() {
			began := time.Now()
			_, err := c.w[0].Jobs.Dispatch(c.t.Context(), utteranceOf(fmt.Sprintf("%s-%d", name, i)))
			mu.Lock()
			defer mu.Unlock()
			times = append(times, time.Since(began))
			if err != nil {
				refused++
			}
		})
	}
	calls.Wait()
	return sorted(times), refused
}

// stalest is for how long the first of the nodes were thought silent at most, by any instance, and how many were not in view.
func (c *crowd) stalest(first int) (silence time.Duration, missing int) {
	for _, in := range c.w {
		for _, id := range c.ids[:first] {
			n := in.Fleet.Node(id)
			if n == nil {
				missing++
				continue
			}
			silence = max(silence, n.SinceSeen(in.Fleet.Now()))
		}
	}
	return silence, missing
}

// TestLosingMostNodesAtOnce: 98 of 100 nodes fall silent at the same moment. Those that are left stay in everybody's view and
// are granted jobs as before. In full:
//
//	go test -v -run TestLosingMostNodesAtOnce ./internal/scheduler -many-nodes 10000
func TestLosingMostNodesAtOnce(t *testing.T) {
	full := *manyNodes >= fullLoss
	cfg := config.Default()
	c := &cfg.Scheduler
	if !full {
		c.Nodes.HeartbeatIntervalMS, c.Nodes.PresenceTTLMS, c.Dispatch.HeartbeatStaleMS = 2000, 6000, 6000
	}
	presence := c.Nodes.PresenceTTLMS.Duration()
	transport := &instant{}
	w := share(t, redistest.Start(t).URL(), cfg, transport)
	transport.jobs.Store(w[0].Jobs)
	stalls := watchStalls(t)
	healthy := *manyNodes / 50
	all := &crowd{t: t, w: w, every: c.Nodes.HeartbeatIntervalMS.Duration()}
	all.ids = populate(t, w[0], *manyNodes, func(int) nodes.Patch { return declaration("en", "zh") })
	all.left.Store(int64(*manyNodes))
	life, stop := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() { all.beat(life) })
	defer beating.Wait()
	defer stop()
	took(t, "both instances to see all nodes", time.Minute, func() bool { return w.sees(all.ids...) })
	for _, id := range all.ids[healthy : 2*healthy] { // some of those that will be lost have work that nobody has a record of
		n, err := w[0].Store.Node(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		lease := core.LeaseRef{Node: id, Job: core.JobID("job-" + string(id)), Attempt: 1, Token: "i-nobody.1"}
		if _, err := w[0].Store.Reserve(t.Context(), store.ReserveParams{Lease: lease, Epoch: n.Node.Epoch, Revision: n.Node.Revision}); err != nil {
			t.Fatal(err)
		}
	}

	measure := func(ctx context.Context, name string) time.Duration {
		t.Helper()
		times, refused := all.dispatches(ctx, name)
		t.Logf("%s: %d dispatches, p50 %v, p99 %v, refused %d", name, len(times), quantile(times, 0.5), quantile(times, 0.99), refused)
		if refused > 0 && full {
			t.Errorf("%s: %d dispatches were refused", name, refused)
		}
		return quantile(times, 0.99)
	}
	calm, end := context.WithTimeout(t.Context(), presence/2)
	before := measure(calm, "calm")
	end()

	stalls.since()
	lost, over := context.WithCancel(t.Context())
	all.left.Store(int64(healthy))
	began := time.Now()
	var watching sync.WaitGroup
	var stalest time.Duration
	missing := 0
	watching.Go(func() {
		defer over()
		var gone time.Time
		for gone.IsZero() || time.Since(gone) < 3*time.Second {
			silence, not := all.stalest(healthy)
			stalest, missing = max(stalest, silence), max(missing, not)
			if gone.IsZero() && w[0].Fleet.Len() <= healthy && w[1].Fleet.Len() <= healthy {
				gone = time.Now()
				t.Logf("%d nodes had left both views %v after their last heartbeat; presence is %v",
					*manyNodes-healthy, time.Since(began).Round(time.Millisecond), presence)
			}
			if time.Since(began) > 4*presence {
				t.Errorf("after %v there are %d and %d nodes in view, want %d", time.Since(began), w[0].Fleet.Len(), w[1].Fleet.Len(), healthy)
				return
			}
			backoff.Sleep(life, 20*time.Millisecond)
		}
	})
	during := measure(lost, "loss")
	watching.Wait()
	stall := stalls.since()
	t.Logf("p99 while %d of %d nodes were lost: %.2f times that of calm; the longest silence of a healthy node: %v; this process was not let run for up to %v",
		*manyNodes-healthy, *manyNodes, float64(during)/float64(before), stalest.Round(time.Millisecond), stall.Round(time.Millisecond))
	if stall < presence/3 && (missing > 0 || stalest >= presence) {
		t.Errorf("%d healthy nodes were not in view, and the longest silence of one was %v", missing, stalest)
	}
	if full && during > 2*before {
		t.Errorf("p99 %v, more than twice the %v of calm", during, before)
	}
	took(t, "the work of the lost nodes to be seen to", time.Minute, func() bool {
		leases, err := w[0].Store.Orphans(t.Context(), all.ids[healthy:2*healthy]...)
		return err == nil && !slices.ContainsFunc(leases, func(l core.Lease) bool { return l.State != core.LeaseRevoked })
	})
}
