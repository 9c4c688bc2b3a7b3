package scheduler_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

var manyNodes = flag.Int("many-nodes", 600, "how many nodes TestReadyMeansEveryNodeIsKnown and TestLosingMostNodesAtOnce have")

// registerMany registers many nodes with an instance, some of them concurrently.
func registerMany(t *testing.T, in *instance, n int, declare func(i int) core.Change) []core.NodeID {
	t.Helper()
	ids := make([]core.NodeID, n)
	next := make(chan int)
	var work sync.WaitGroup
	for range 32 {
		work.Go(func() {
			for i := range next {
				ids[i] = core.NodeID(fmt.Sprintf("many-%d", i))
				retryWhileDown(t, func() error {
					_, err := in.Nodes.Register(t.Context(), ids[i], declare(i), nodes.Caller{}, store.Activity{Lists: true})
					return err
				})
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	work.Wait()
	return ids
}

// TestReadyMeansEveryNodeIsKnown: a new instance over a store with many nodes refuses nothing once it is ready.
// Each direction is served by one node only, so that a missing node is a refusal.
func TestReadyMeansEveryNodeIsKnown(t *testing.T) {
	besideOthersUnlessMeasured(t)
	const directions = 200 // of as many of the nodes
	redis := redistest.Start(t)
	cfg := config.Default()
	cfg.Store = redis.URL()
	withoutHeartbeats(&cfg)
	transport := newInstantTransport()
	instances := startCluster(t, redis.URL(), cfg, transport)
	language := func(i int) core.Lang { return core.Lang(fmt.Sprintf("q%c%c", 'a'+i/20, 'a'+i%20)) }
	every := *manyNodes / directions
	registerMany(t, instances[0], *manyNodes, func(i int) core.Change {
		if i%every == 0 && i/every < directions {
			return declaration(language(i/every), "zh")
		}
		return declaration("en", "zh")
	})

	began := time.Now()
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 1
	s, url := runTest(t, func() *scheduler.Scheduler { return newSchedulerWith(t, cfg, transport) })
	transport.jobs.Store(s.Jobs)
	peer := lab.NewAPI(url)
	t.Cleanup(peer.Close)
	waitUntil(t, "the new instance to be ready", waitLimit, func() bool { return peer.Get(t.Context(), "/readyz", new(wire.ReadyResponse)) == nil })
	ready := time.Since(began)
	refused := make(map[wire.Code]int)
	for i := range directions {
		body := map[string]any{"session_id": "s", "src_lang": string(language(i)), "tgt_lang": "zh", "request_id": fmt.Sprintf("r%d", i)}
		e := new(wire.Error)
		waitUntil(t, "an answer of Redis in time", waitLimit, func() bool {
			e = nil
			err := peer.Post(t.Context(), "/v1/dispatch/f2f", body, new(wire.DispatchResponse))
			if err != nil && !errors.As(err, &e) {
				t.Fatal(err)
			}
			// That an instance does not know every node has the same code.
			return e == nil || e.Code != wire.SchedulerDependencyDown || !strings.Contains(e.Detail, "the shared store does not answer")
		})
		if e != nil {
			refused[e.Code]++
		}
	}
	t.Logf("%d nodes: ready after %v; of %d dispatches from then on, each for another node, refused: %v",
		*manyNodes, ready.Round(time.Millisecond), directions, refused)
	if len(refused) > 0 {
		t.Errorf("refused after it was ready: %v", refused)
	}
}

// measuredLoss is the number of nodes from which on TestLosingMostNodesAtOnce is a measurement: with fewer it runs beside other
// tests, and its times mean nothing.
const measuredLoss = 10_000

// besideOthersUnlessMeasured makes a test parallel, unless it measures.
func besideOthersUnlessMeasured(t *testing.T) (measured bool) {
	t.Helper()
	if *manyNodes >= measuredLoss {
		return true
	}
	t.Parallel()
	return false
}

// manyHeartbeats sends the heartbeats of many nodes to two instances, until some of them are lost.
type manyHeartbeats struct {
	t        *testing.T
	cluster  cluster
	ids      []core.NodeID
	interval time.Duration
	alive    atomic.Int64   // how many nodes, from the first on, send heartbeats
	accepted []atomic.Int64 // when a heartbeat of each node was last accepted, in ns
}

// sinceAccepted returns how long ago a heartbeat of the i-th node was last accepted.
func (c *manyHeartbeats) sinceAccepted(i int) time.Duration {
	return time.Since(time.Unix(0, c.accepted[i].Load()))
}

// send sends heartbeats until the context ends, spread over the interval.
func (c *manyHeartbeats) send(ctx context.Context) {
	const parts = 50
	var work sync.WaitGroup
	for at := range 16 {
		work.Go(func() {
			for round := 0; run.Sleep(ctx, c.interval/parts); round++ {
				for i := round%parts + at*parts; i < int(c.alive.Load()); i += 16 * parts {
					b := nodes.Heartbeat{Node: c.ids[i], Activity: store.Activity{Lists: true}}
					// The next heartbeat makes up for one that failed.
					if _, err := c.cluster[i%len(c.cluster)].Nodes.Heartbeat(ctx, b); err == nil {
						c.accepted[i].Store(time.Now().UnixNano())
					}
				}
			}
		})
	}
	work.Wait()
}

// measureDispatches measures dispatches at a steady rate until the context ends. It also counts those that were refused.
func (c *manyHeartbeats) measureDispatches(ctx context.Context, name string) (times []time.Duration, refused int) {
	var mu sync.Mutex
	var calls sync.WaitGroup
	for i := 0; run.Sleep(ctx, 5*time.Millisecond); i++ {
		calls.Go(func() {
			began := time.Now()
			_, err := c.cluster[0].Jobs.Dispatch(c.t.Context(), requestFor(fmt.Sprintf("%s-%d", name, i)))
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

// longestSilence returns for how long any instance took one of the first nodes for silent, and how many of them were not in a fleet. A node
// counts only if one of its last two heartbeats was accepted: on a busy machine Redis may not answer in time.
func (c *manyHeartbeats) longestSilence(first int) (silence time.Duration, missing int) {
	for _, in := range c.cluster {
		for i, id := range c.ids[:first] {
			if c.sinceAccepted(i) > 2*c.interval {
				continue
			}
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

// reserveWithoutRecord takes a slot of each node for a job that has no record.
func reserveWithoutRecord(t *testing.T, in *instance, ids []core.NodeID) {
	t.Helper()
	for _, id := range ids {
		lease := core.LeaseRef{Node: id, Job: core.JobID("job-" + string(id)), Attempt: 1, Token: "i-unknown.1"}
		retryWhileDown(t, func() error {
			n, err := store.ReadNode(t.Context(), in.Store, id)
			if err == nil {
				_, err = in.Store.Reserve(t.Context(), store.ReserveParams{Lease: lease, Epoch: n.Node.Epoch, Revision: n.Node.Revision})
			}
			return err
		})
	}
}

// lossConfig returns a configuration for TestLosingMostNodesAtOnce, and how long it looks before and after the loss.
func lossConfig(full bool) (cfg config.Config, calmFor, watch time.Duration) {
	cfg = config.Default()
	c := &cfg.Scheduler
	if full {
		return cfg, c.Nodes.PresenceTTLMS.Duration() / 2, 3 * time.Second
	}
	c.Nodes.HeartbeatIntervalMS, c.Nodes.PresenceTTLMS, c.Dispatch.HeartbeatStaleMS = 1000, 12_000, 12_000
	c.TaskBinding.ReservedTTLSeconds = 1 // a lease may be without a record for so long: shorter than any node is silent
	return cfg, time.Second, time.Second
}

// TestLosingMostNodesAtOnce: 98 of 100 nodes fall silent at the same time. The others stay in the fleets of all instances and
// get jobs as before. In full:
//
//	go test -v -run TestLosingMostNodesAtOnce ./internal/scheduler -many-nodes 10000
func TestLosingMostNodesAtOnce(t *testing.T) {
	full := besideOthersUnlessMeasured(t)
	cfg, calmFor, watch := lossConfig(full)
	presence := cfg.Scheduler.Nodes.PresenceTTLMS.Duration()
	transport := newInstantTransport()
	instances := startCluster(t, redistest.Start(t).URL(), cfg, transport)
	transport.jobs.Store(instances[0].Jobs)
	stalls := detectStalls(t)
	healthy := *manyNodes / 50
	all := &manyHeartbeats{t: t, cluster: instances, interval: cfg.Scheduler.Nodes.HeartbeatIntervalMS.Duration()}
	all.ids = registerMany(t, instances[0], *manyNodes, func(int) core.Change { return declaration("en", "zh") })
	all.accepted = make([]atomic.Int64, *manyNodes)
	all.alive.Store(int64(*manyNodes))
	ctx, stop := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() { all.send(ctx) })
	defer beating.Wait()
	defer stop()
	waitUntil(t, "both instances to see all nodes", waitLimit, func() bool { return instances.allSee(all.ids...) })
	reserveWithoutRecord(t, instances[0], all.ids[healthy:2*healthy]) // on some of the nodes that will be lost

	measure := func(ctx context.Context, name string) time.Duration {
		t.Helper()
		times, refused := all.measureDispatches(ctx, name)
		t.Logf("%s: %d dispatches, p50 %v, p99 %v, refused %d", name, len(times), quantile(times, 0.5), quantile(times, 0.99), refused)
		if refused > 0 && full {
			t.Errorf("%s: %d dispatches were refused", name, refused)
		}
		return quantile(times, 0.99)
	}
	calm, end := context.WithTimeout(t.Context(), calmFor)
	before := measure(calm, "calm")
	end()

	stalls.TakeLongest()
	lost, over := context.WithCancel(t.Context())
	all.alive.Store(int64(healthy))
	began := time.Now()
	var watching sync.WaitGroup
	var stalest time.Duration
	missing := 0
	watching.Go(func() {
		defer over()
		var lostAt time.Time
		for lostAt.IsZero() || time.Since(lostAt) < watch {
			silence, absent := all.longestSilence(healthy)
			stalest, missing = max(stalest, silence), max(missing, absent)
			if lostAt.IsZero() && instances[0].Fleet.Len() <= healthy && instances[1].Fleet.Len() <= healthy {
				lostAt = time.Now()
				t.Logf("%d nodes had left both fleets %v after their last heartbeat; presence is %v",
					*manyNodes-healthy, time.Since(began).Round(time.Millisecond), presence)
			}
			if time.Since(began) > waitLimit {
				t.Errorf("after %v there are %d and %d nodes in the fleets, want %d", time.Since(began), instances[0].Fleet.Len(), instances[1].Fleet.Len(), healthy)
				return
			}
			run.Sleep(ctx, 20*time.Millisecond)
		}
	})
	during := measure(lost, "loss")
	watching.Wait()
	stall := stalls.TakeLongest()
	t.Logf("p99 while %d of %d nodes were lost: %.2f times that of calm; the longest silence of a healthy node: %v; this process was stalled for up to %v",
		*manyNodes-healthy, *manyNodes, float64(during)/float64(before), stalest.Round(time.Millisecond), stall.Round(time.Millisecond))
	// Where a dispatch takes that long before the loss, a heartbeat that one instance has accepted reaches the other too late.
	busy := stall > presence/6 || before > presence/60
	if !busy && (missing > 0 || stalest >= presence) {
		t.Errorf("%d healthy nodes were not in a fleet, and the longest silence of one was %v", missing, stalest)
	}
	if full && during > 2*before {
		t.Errorf("p99 %v, more than twice the %v of calm", during, before)
	}
	waitUntil(t, "the leases of the lost nodes to be revoked", time.Minute, func() bool {
		leases, err := instances[0].Store.Orphans(t.Context(), all.ids[healthy:2*healthy]...)
		return err == nil && !slices.ContainsFunc(leases, func(l core.Lease) bool { return l.State != core.LeaseRevoked })
	})
}
