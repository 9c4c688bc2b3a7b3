package drill

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/sim"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

var blockFor = flag.Duration("drill-block", 2*time.Minute, "how long TestNodesBlock gives jobs to its nodes")

const (
	blockNodes   = 100
	blockWork    = 500 * time.Millisecond
	blockLongest = 8 * time.Second
	blockCallers = 150
	blockKnown   = time.Minute // of a connection, in which its node may be suspected
)

// TestNodesBlock runs nodes that block for up to eight seconds after about every third job: they read nothing, and send nothing, as a node does
// whose models run in the thread of its connection. After the first minute no node is suspected, and none is ejected. In full:
//
//	go test -count=1 -v -run TestNodesBlock -timeout 40m ./internal/drill -drill-block 30m
func TestNodesBlock(t *testing.T) {
	t.Parallel()
	c := startTestCluster(t, buildOnce(t), *drillTopology, rand.New(rand.NewPCG(1, 0)), []byte(commonSettings+`wait_ms = 20000
[scheduler.dispatch]
ack_timeout_ms = 12000

[scheduler.task_binding]
reserved_ttl_seconds = 13
`))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for n := range blockNodes {
		running.Go(func() { runBlockingNode(ctx, t, fmt.Sprint("block-", n), c.Instances[n%len(c.Instances)].URL()) })
	}
	c.nodeCount = blockNodes
	c.Must(c.waitAllNodes())
	known := time.Now().Add(blockKnown)
	end := time.Now().Add(max(*blockFor, blockKnown+30*time.Second))
	var done, failed atomic.Int64
	var callers sync.WaitGroup
	for n := range blockCallers {
		callers.Go(func() {
			api := sim.NewAPI(c.Instances[n%len(c.Instances)].URL())
			defer api.Close()
			for time.Now().Before(end) {
				request := wire.DispatchRequest{SessionID: fmt.Sprint("s", n), SrcLang: "en", TgtLang: "es", AudioRef: "blob://a"}
				var placed wire.DispatchResponse
				var job wire.Job
				if err := api.Post(ctx, "/v1/dispatch/f2f", request, &placed); err != nil {
					failed.Add(1)
					backoff.Sleep(ctx, time.Second)
					continue
				}
				for job.State != "DONE" && job.State != "FAILED" && backoff.Sleep(ctx, 250*time.Millisecond) {
					_ = api.Get(ctx, "/v1/jobs/"+placed.JobID, &job) // it is tried again
				}
				if job.State == "DONE" {
					done.Add(1)
				} else {
					failed.Add(1)
				}
			}
		})
	}
	callers.Wait()
	text, err := c.Instances[0].Get(ctx, "/v1/events?limit=1000&order=desc")
	var log wire.EventList
	if err == nil {
		err = json.Unmarshal(text, &log)
	}
	c.Must(err)
	early, late := 0, 0
	for _, e := range log.Events {
		switch {
		case e.Kind == "node_ejected":
			t.Errorf("ejected: %+v", e)
		case e.Kind != "node_silent":
		case time.UnixMilli(e.AtMS).Before(known):
			early++
		default:
			late++
			t.Errorf("suspected %v after the first minute: %+v", time.UnixMilli(e.AtMS).Sub(known), e)
		}
	}
	t.Logf("%d nodes, %v: %d jobs done, %d not; %d suspicions in the first minute, %d after it", blockNodes, *blockFor, done.Load(), failed.Load(), early, late)
}

// runBlockingNode runs a node that blocks now and then.
func runBlockingNode(ctx context.Context, t *testing.T, id, url string) {
	g := &gate{}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return gatedConn{conn, g}, err
	}}
	cfg := node.Config{
		ID: id, URLs: []string{url}, Slots: 2, Log: slog.New(slog.DiscardHandler), ShutdownTimeout: time.Second, HTTPClient: &http.Client{Transport: transport},
		Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}},
	}
	err := node.Run(ctx, cfg, func(ctx context.Context, _ *node.Job) (node.Result, error) {
		backoff.Sleep(ctx, blockWork)
		if rand.N(3) == 0 {
			go g.block(ctx, rand.N(blockLongest))
		}
		return node.Result{TextTgt: "hola"}, ctx.Err()
	})
	if err != nil {
		t.Errorf("%s: %v", id, err)
	}
}

// gate stops what goes through a connection.
type gate struct{ mu sync.RWMutex }

// block lets nothing through for a time, unless it does already.
func (g *gate) block(ctx context.Context, d time.Duration) {
	if g.mu.TryLock() {
		defer g.mu.Unlock()
		backoff.Sleep(ctx, d)
	}
}

// wait waits until something is let through.
func (g *gate) wait() {
	g.mu.RLock()
	defer g.mu.RUnlock()
}

// gatedConn is a connection of a node that may block.
type gatedConn struct {
	net.Conn
	gate *gate
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.wait()
	return n, err
}

func (c gatedConn) Write(b []byte) (int, error) {
	c.gate.wait()
	return c.Conn.Write(b)
}
