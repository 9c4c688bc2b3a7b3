package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/pick"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// The test of equal nodes: several instances with a store in common, each with its own view of the fleet and its own nodes, which
// send their results to it and to no other instance.

const (
	nodesOfInstance = 3
	slotsOfNode     = 4
	hopTime         = time.Millisecond // of a message from instance to instance
)

// peer is one instance.
type peer struct {
	id         core.InstanceID
	fleet      *fleet.Fleet
	dispatcher *dispatch.Dispatcher
	registry   *nodes.Registry
}

// cluster is the instances, their nodes and their sessions.
type cluster struct {
	t     *testing.T
	mem   *memstore.Store
	peers []*peer
	tasks sync.WaitGroup

	mu    sync.Mutex
	rng   *rand.Rand
	owner map[core.SessionID]*peer
	ended map[core.JobID]chan struct{} // closed when the session has the result
}

// startCluster starts instances with nodes, and returns when all know all nodes. The instances stop when the test's function ends.
func startCluster(ctx context.Context, t *testing.T, instances int, spread bool) *cluster {
	t.Helper()
	c := &cluster{
		t: t, mem: memstore.New(timing), rng: rand.New(rand.NewPCG(1, uint64(instances))),
		owner: make(map[core.SessionID]*peer), ended: make(map[core.JobID]chan struct{}),
	}
	for i := range instances {
		c.startPeer(ctx, i, spread)
	}
	synctest.Wait()
	for _, p := range c.peers {
		for i := range nodesOfInstance {
			c.startNode(ctx, p, core.NodeID(fmt.Sprintf("%s-node-%d", p.id, i)))
		}
	}
	time.Sleep(time.Second)
	synctest.Wait()
	return c
}

func (c *cluster) startPeer(ctx context.Context, i int, spread bool) {
	log, metrics := slog.New(slog.DiscardHandler), telemetry.New()
	p := &peer{id: core.InstanceID(fmt.Sprintf("i%d", i)), fleet: fleet.New(timing.Presence)}
	policy := pick.Policy{SampleK: 20, ScanMax: 512, StaleAfter: timing.Presence, LateAfter: 11 * time.Second, Shuffle: true, CPUMax: 1,
		GPUMax: 1, MemoryMax: 1}
	cfg := dispatch.Config{
		Instance: p.id, DecideWithin: 400 * time.Millisecond, ACKTimeout: 2 * time.Second, AttemptTimeout: timing.Attempt,
		JobTimeout: timing.Job, MaxRetry: 2, DeliverWithin: timing.ReservedTTL, Shared: true,
	}
	if spread {
		cfg.SpreadWindow = 30 * time.Second
	}
	rng := rand.New(rand.NewPCG(2, uint64(i)))
	var mu sync.Mutex
	picker := pick.New(p.fleet, policy, func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	})
	p.dispatcher = dispatch.New(cfg, c.mem, p.fleet, picker, nodeLink{c, p}, resultLink{c, p}, metrics, log)
	p.registry = nodes.New(nodes.Config{Instance: p.id}, c.mem, p.fleet, nodes.JobsOf(p.dispatcher), metrics, log)
	follower := &fleet.Follower{Fleet: p.fleet, Nodes: c.mem, Marks: c.mem, Log: log, OnSilent: p.registry.MoveJobsOfSilent}
	c.tasks.Go(func() { follower.Run(ctx) })
	c.peers = append(c.peers, p)
}

// startNode registers a node at an instance, and sends its heartbeats.
func (c *cluster) startNode(ctx context.Context, p *peer, id core.NodeID) {
	slots, url := slotsOfNode, "http://127.0.0.1:9/"+string(id)
	patch := core.Change{Declaration: core.Declaration{MaxJobs: slots, Capability: core.Capability{Semantic: core.LangSet{"en", "zh"}}, Callback: url}}
	if _, err := p.registry.Register(ctx, id, patch, nodes.Caller{}, store.Activity{}); err != nil {
		c.t.Fatal(err)
	}
	c.tasks.Go(func() {
		for run.Sleep(ctx, c.between(4*time.Second, 6*time.Second)) {
			if _, err := p.registry.Heartbeat(ctx, nodes.Heartbeat{Node: id}); err != nil && ctx.Err() == nil {
				c.t.Error(err)
			}
		}
	})
}

func (c *cluster) between(a, b time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return a + time.Duration(c.rng.Int64N(int64(b-a)))
}

// peerOf returns the instance to which a node is connected.
func (c *cluster) peerOf(id core.NodeID) *peer {
	for _, p := range c.peers {
		if strings.HasPrefix(string(id), string(p.id)+"-") {
			return p
		}
	}
	c.t.Errorf("no instance has node %s", id)
	return c.peers[0]
}

// nodeLink delivers jobs to nodes, which acknowledge them and do them in 200 ms to a second.
type nodeLink struct {
	*cluster
	from *peer
}

// Deliver implements dispatch.Transport.
func (l nodeLink) Deliver(_ context.Context, to *core.Node, a *wire.Assignment) error {
	at := l.peerOf(to.ID)
	r := dispatch.Report{Job: core.JobID(a.JobID), Holder: core.Holder{Attempt: a.AttemptID, Node: to.ID, Epoch: core.Epoch(a.Epoch)}}
	took := l.between(200*time.Millisecond, time.Second)
	l.tasks.Go(func() {
		if at != l.from {
			time.Sleep(hopTime)
		}
		if err := at.dispatcher.Reports.Ack(context.Background(), r); err != nil {
			l.t.Error(err)
		}
		time.Sleep(took)
		if err := at.dispatcher.Reports.Done(context.Background(), r, []byte(`{}`)); err != nil {
			l.t.Error(err)
		}
	})
	return nil
}

// Cancel implements dispatch.Transport.
func (nodeLink) Cancel(context.Context, core.NodeID, core.JobID, int) {}

// resultLink sends the end of each job to the instance that has its session.
type resultLink struct {
	*cluster
	at *peer
}

// AudioWanted implements dispatch.Outcomes.
func (resultLink) AudioWanted(context.Context, *core.Job) {}

// NotifyEnded implements dispatch.Outcomes.
func (l resultLink) NotifyEnded(_ context.Context, at core.InstanceID, job core.JobID) {
	for _, p := range l.peers {
		if p.id == at {
			l.notify(p, job)
		}
	}
}

// JobEnded implements dispatch.Outcomes.
func (l resultLink) JobEnded(_ context.Context, job *core.Job, _ time.Time) error {
	l.mu.Lock()
	owner := l.owner[job.Session]
	l.mu.Unlock()
	l.notify(owner, job.ID)
	return nil
}

func (l resultLink) notify(owner *peer, job core.JobID) {
	l.mu.Lock()
	ended := l.ended[job]
	delete(l.ended, job)
	l.mu.Unlock()
	l.tasks.Go(func() {
		if owner != l.at {
			time.Sleep(hopTime)
			owner.dispatcher.EndedElsewhere(job)
		}
		if ended != nil {
			close(ended)
		}
	})
}

// succession is an utterance by where it came from and where it went.
type succession struct {
	instance core.InstanceID // of its session
	previous core.NodeID     // of the utterance before, if it is avoided
	node     core.NodeID
}

// speak has sessions say utterances, one after the other in each, and returns where they went. Without spread the node before is not kept:
// under load it has just become less busy than others.
func (c *cluster) speak(ctx context.Context, sessions, utterances int, spread bool, at func(session int) *peer) map[succession]int {
	counts := make(map[succession]int)
	var speakers sync.WaitGroup
	for i := range sessions {
		p, id := at(i), core.SessionID(fmt.Sprint("session-", i))
		c.mu.Lock()
		c.owner[id] = p
		c.mu.Unlock()
		speakers.Go(func() {
			var previous dispatch.PreviousJob
			for turn := range utterances / sessions {
				placed := c.sayUtterance(ctx, p, id, int64(turn+1), previous)
				s := succession{instance: p.id, node: placed.Node}
				if spread {
					s.previous = previous.Node
				}
				c.mu.Lock()
				counts[s]++
				c.mu.Unlock()
				previous = dispatch.PreviousJob{Node: placed.Node, At: time.Now()}
				time.Sleep(c.between(10*time.Millisecond, 100*time.Millisecond))
			}
		})
	}
	speakers.Wait()
	return counts
}

// sayUtterance dispatches an utterance, again while all nodes are busy, and waits for its result.
func (c *cluster) sayUtterance(ctx context.Context, p *peer, id core.SessionID, turn int64,
	previous dispatch.PreviousJob) dispatch.Placement {
	s := spec(func(s *core.Spec) {
		s.Request, s.Session, s.Utterance.Turn = core.RequestID(fmt.Sprint("req-", turn)), id, turn
	})
	ended := make(chan struct{})
	c.mu.Lock()
	c.ended[s.Job()] = ended
	c.mu.Unlock()
	for {
		placed, err := p.dispatcher.Dispatch(ctx, dispatch.Request{Spec: s, UntilPlaced: true, Previous: previous})
		if err == nil {
			<-ended
			return placed
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestEqualNodesOfAllInstancesAreChosenEqually: nodes that are equal get equal shares of the utterances of each instance, and with spread
// equal shares of those that follow an utterance on each other node, whichever instance they are connected to and whichever were used last.
// The load is light (one session on one instance) or heavy (about two thirds of all slots are taken by sessions on all instances).
func TestEqualNodesOfAllInstancesAreChosenEqually(t *testing.T) {
	t.Parallel()
	const (
		utterances = 5400
		reject     = 1e-9
	)
	for instances := 1; instances <= 3; instances++ {
		for _, heavy := range []bool{false, true} {
			for _, spread := range []bool{false, true} {
				t.Run(fmt.Sprintf("instances=%d/heavy=%t/spread=%t", instances, heavy, spread), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						ctx, stop := context.WithCancel(t.Context())
						c := startCluster(ctx, t, instances, spread)
						sessions := 1
						if heavy {
							sessions = instances * nodesOfInstance * slotsOfNode * 3 / 4
						}
						counts := c.speak(ctx, sessions, utterances, spread, func(session int) *peer { return c.peers[session%instances] })
						stop()
						for _, p := range c.peers {
							p.dispatcher.Close()
						}
						c.tasks.Wait()
						x, degrees, n := chiSquareOfSuccessions(counts, instances*nodesOfInstance, spread)
						p := chiSquareProbability(x, degrees)
						t.Logf("χ² = %.1f with %d degrees of freedom, n = %d, p = %.2g", x, degrees, n, p)
						if p < reject || n < 5000 {
							t.Errorf("p = %.2g of %d utterances, want at least %g: %v", p, n, reject, counts)
						}
					})
				})
			}
		}
	}
}

// chiSquareOfSuccessions compares the utterances of each instance, and with spread those of them that followed one on the same node, with
// equal shares of all nodes, with spread of all but that node. What a session does next depends with spread on what it did last, so it is
// these steps that are independent, not the numbers of the nodes. A first utterance avoids no node, and one that finds all others full does
// not either: with spread they are left out.
func chiSquareOfSuccessions(counts map[succession]int, nodes int, spread bool) (x float64, degrees, n int) {
	rows := make(map[succession]map[core.NodeID]int) // by all but the node
	for s, count := range counts {
		if spread && (s.previous == "" || s.previous == s.node) {
			continue
		}
		from := succession{instance: s.instance, previous: s.previous}
		if rows[from] == nil {
			rows[from] = make(map[core.NodeID]int)
		}
		rows[from][s.node] += count
	}
	if spread {
		nodes--
	}
	for _, row := range rows {
		total, squares := 0, 0.0
		for _, count := range row {
			total += count
			squares += float64(count) * float64(count)
		}
		x += squares*float64(nodes)/float64(total) - float64(total)
		degrees += nodes - 1
		n += total
	}
	return x, degrees, n
}
