package drill

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

var flapRounds = flag.Int("drill-flaps", 1, "how often TestConnectionsFlap cuts the connections of all nodes")

const (
	flapNodes = 50
	flapSlots = 8
	flapJobs  = 200
	flapWork  = 2 * time.Second
	flapPause = 300 * time.Millisecond // nothing can connect after the cut, as while a proxy restarts
)

// TestConnectionsFlap cuts the connections of all nodes at once while half of their slots have jobs, as the restart of a proxy does. Every job is
// done, no node is oversold or blamed, and no more jobs are done twice than there were free slots. In full:
//
//	go test -count=1 -v -run TestConnectionsFlap ./test/drill -drill-flaps 20
func TestConnectionsFlap(t *testing.T) {
	t.Parallel()
	c := startTestCluster(t, buildOnce(t), *drillTopology, rand.New(rand.NewPCG(1, 0)), []byte(commonSettings))
	d := &flapDrill{testCluster: c, open: make(map[net.Conn]bool)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var urls []string
	for _, at := range c.Instances {
		urls = append(urls, at.URL())
	}
	fleet.StartNodes(t, d.work, fleet.Configs(flapNodes, func(n int) node.Config {
		return node.Config{
			ID: fmt.Sprint("flap-", n), URLs: urls, Slots: flapSlots, OnFull: func(wire.ActiveJob) { d.full.Add(1) },
			HTTPClient: &http.Client{Transport: &http.Transport{DialContext: d.dial, DisableKeepAlives: true}},
		}
	})...)
	d.nodeCount = flapNodes
	d.Must(d.waitAllNodes())
	for round := range *flapRounds {
		d.flap(ctx, round)
	}
	violations, _ := c.auditResult()
	if full := d.full.Load(); len(violations) > 0 || full > 0 {
		t.Errorf("%d jobs came to nodes without a free slot; violations: %v", full, violations)
	}
}

// flapDrill has what the nodes of the drill share.
type flapDrill struct {
	*testCluster
	worked atomic.Int64 // nanoseconds, of all nodes
	full   atomic.Int64 // jobs that came to a node without a free slot

	mu   sync.Mutex
	open map[net.Conn]bool
	cut  bool // nothing can connect
}

// work does a job.
func (d *flapDrill) work(ctx context.Context, _ *node.Job) (node.Result, error) {
	began := time.Now()
	run.Sleep(ctx, flapWork)
	d.worked.Add(int64(time.Since(began)))
	return node.Result{TextTgt: "hola"}, ctx.Err()
}

// dial connects unless the connections are cut.
func (d *flapDrill) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return nil, net.ErrClosed
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		d.open[c] = true
	}
	return c, err
}

// cutAll closes all connections, and lets none be made for a while.
func (d *flapDrill) cutAll(ctx context.Context) {
	d.mu.Lock()
	d.cut = true
	for c := range d.open {
		_ = c.Close()
	}
	clear(d.open)
	d.mu.Unlock()
	run.Sleep(ctx, flapPause)
	d.mu.Lock()
	d.cut = false
	d.mu.Unlock()
}

// flap gives the nodes jobs, cuts their connections, and waits for the ends of the jobs.
func (d *flapDrill) flap(ctx context.Context, round int) {
	var jobs sync.WaitGroup
	placed := make([]wire.DispatchResponse, flapJobs)
	worked := d.worked.Load()
	for i := range placed {
		jobs.Go(func() {
			request := wire.DispatchRequest{RequestID: fmt.Sprint("flap-", round, "-", i), SessionID: "s", SrcLang: "en", TgtLang: "es", AudioRef: "blob://a"}
			err := clustertest.Eventually(ctx, time.Minute, func() error {
				err := d.Instances[i%len(d.Instances)].API.Post(ctx, "/v1/dispatch/f2f", request, &placed[i])
				var e *wire.Error
				if errors.As(err, &e) && e.Code == wire.SchedulerDependencyDown {
					return err // on a busy machine Redis may answer too late
				}
				if err != nil {
					d.TB.Errorf("round %d, job %d: %v", round, i, err)
				}
				return nil
			})
			if err != nil {
				d.TB.Errorf("round %d, job %d: %v", round, i, err)
			}
		})
	}
	jobs.Wait()
	run.Sleep(ctx, flapWork/4)
	d.cutAll(ctx)
	started := 0
	for i := range placed {
		var job wire.Job
		d.Must(clustertest.EventuallyEvery(ctx, 20*time.Millisecond, time.Minute, func() error {
			err := d.Instances[i%len(d.Instances)].Read(ctx, "/v1/jobs/"+placed[i].JobID, &job)
			if err == nil && job.State != "DONE" {
				err = fmt.Errorf("it is %+v", job)
			}
			return err
		}))
		started += len(job.Attempts) - 1
	}
	d.Must(d.waitAllNodes())
	d.Must(clustertest.Eventually(ctx, time.Minute, func() error { return d.slotsAreFree(ctx) }))
	again := time.Duration(d.worked.Load()-worked) - flapJobs*flapWork
	d.TB.Logf("round %d: %d jobs done; %d further attempts, with %d slots free; %.1f s of work done again", round, flapJobs, started, flapNodes*flapSlots-flapJobs, again.Seconds())
	if started > flapNodes*flapSlots-flapJobs {
		d.TB.Errorf("round %d: %d further attempts, more than there were free slots", round, started)
	}
}

// slotsAreFree checks that no node has a job, or is blamed for anything.
func (d *flapDrill) slotsAreFree(ctx context.Context) error {
	var list wire.NodeList
	if err := d.Instances[0].Read(ctx, "/v1/nodes?limit=1000", &list); err != nil {
		return err
	}
	for i := range list.Nodes {
		switch n := &list.Nodes[i]; {
		case n.Admission != nil || n.SetAsideMS > 0:
			d.TB.Errorf("%s was ejected or set aside", n.NodeID)
		case n.EffectiveLoad > 0:
			return fmt.Errorf("%d slots of %s are taken", n.EffectiveLoad, n.NodeID)
		}
	}
	return nil
}
