package drill

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/run"
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
// whose models run in the thread of its connection. After the first minute no node is suspected, and none is ejected: the timeouts are longer than two
// blocks, which may meet one job. In full:
//
//	go test -count=1 -v -run TestNodesBlock -timeout 40m ./test/drill -drill-block 30m
func TestNodesBlock(t *testing.T) {
	t.Parallel()
	c := startTestCluster(t, buildOnce(t), *drillTopology, rand.New(rand.NewPCG(1, 0)), []byte(commonSettings+`wait_ms = 20000
[scheduler.dispatch]
ack_timeout_ms = 12000
attempt_timeout_ms = 40000
job_timeout_ms = 80000

[scheduler.task_binding]
reserved_ttl_seconds = 13
`))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	nodes := make(map[string]*blockingNode)
	for n := range blockNodes {
		b := &blockingNode{id: fmt.Sprint("block-", n), url: c.Instances[n%len(c.Instances)].URL(), active: make(map[wire.ActiveJob]bool)}
		nodes[b.id] = b
		running.Go(func() { b.run(ctx, t) })
	}
	c.nodeCount = blockNodes
	c.Must(c.waitAllNodes())
	end := time.Now().Add(max(*blockFor, blockKnown+30*time.Second))
	var done, failed, refused atomic.Int64
	var callers sync.WaitGroup
	for n := range blockCallers {
		callers.Go(func() {
			api := c.Instances[n%len(c.Instances)].API
			for time.Now().Before(end) {
				request := wire.DispatchRequest{SessionID: fmt.Sprint("s", n), SrcLang: "en", TgtLang: "es", AudioRef: "blob://a"}
				var placed wire.DispatchResponse
				var job wire.Job
				if err := api.Post(ctx, "/v1/dispatch/f2f", request, &placed); err != nil {
					refused.Add(1)
					run.Sleep(ctx, time.Second)
					continue
				}
				for job.State != "DONE" && job.State != "FAILED" && run.Sleep(ctx, 250*time.Millisecond) {
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
	var log wire.EventList
	c.Must(c.Instances[0].Read(ctx, "/v1/events?limit=1000&order=desc", &log))
	early, late := 0, 0
	for _, e := range log.Events {
		switch e.Kind {
		case "node_ejected":
			t.Errorf("ejected: %+v", e)
		case "node_silent":
			age := nodes[e.NodeID].connectedFor(time.UnixMilli(e.AtMS))
			if age <= blockKnown {
				early++
				continue
			}
			late++
			t.Errorf("suspected %v after it connected: %+v", age, e)
		}
	}
	connected := 0
	for _, b := range nodes {
		connected += len(b.opened)
	}
	t.Logf("%d nodes, %d connections, %v: %d jobs done, %d failed, %d requests refused; suspicions: %d in the first minute of a connection, %d later",
		blockNodes, connected, *blockFor, done.Load(), failed.Load(), refused.Load(), early, late)
}

// blockingNode is a node that blocks now and then. It is not one of package node, which would connect again when it cannot read.
type blockingNode struct {
	id, url string
	gate    sync.RWMutex // held while the node neither reads nor sends

	mu     sync.Mutex
	active map[wire.ActiveJob]bool
	opened []time.Time // when it connected
}

// connectedFor returns how old the connection was at a time.
func (n *blockingNode) connectedFor(at time.Time) (age time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, opened := range n.opened {
		if !opened.After(at) {
			age = at.Sub(opened)
		}
	}
	return age
}

// block makes the node neither read nor send for a time, unless it does so already.
func (n *blockingNode) block(ctx context.Context) {
	if n.gate.TryLock() {
		defer n.gate.Unlock()
		run.Sleep(ctx, rand.N(blockLongest))
	}
}

// run connects, and again when the connection is lost, until the context ends.
func (n *blockingNode) run(ctx context.Context, t *testing.T) {
	for run.Sleep(ctx, 100*time.Millisecond) {
		if err := n.serve(ctx); ctx.Err() == nil {
			t.Logf("%s: %v", n.id, err)
		}
	}
}

func (n *blockingNode) serve(ctx context.Context) error {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return gatedConn{c, &n.gate}, err
	}
	transport := &http.Transport{DialContext: dial}
	defer transport.CloseIdleConnections()
	ws, _, err := websocket.Dial(ctx, strings.Replace(n.url, "http", "ws", 1)+"/ws/node", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	n.mu.Lock()
	n.opened = append(n.opened, time.Now())
	n.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer stop()
	if err := n.send(ctx, ws, map[string]any{"type": "node_register", "node_id": n.id, "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2}); err != nil {
		return err
	}
	tasks.Go(func() {
		for run.Sleep(ctx, 5*time.Second) {
			_ = n.send(ctx, ws, map[string]any{"type": "node_heartbeat"}) // the read below has the error
		}
	})
	for {
		_, text, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		var m struct {
			Type string `json:"type"`
			wire.ActiveJob
		}
		if err := json.Unmarshal(text, &m); err != nil {
			return err
		}
		switch m.Type {
		case "job_assign":
			tasks.Go(func() { n.work(ctx, ws, m.ActiveJob) })
		case "job_cancel":
			n.end(m.ActiveJob)
		}
	}
}

// work does a job.
func (n *blockingNode) work(ctx context.Context, ws *websocket.Conn, job wire.ActiveJob) {
	n.mu.Lock()
	n.active[job] = true
	n.mu.Unlock()
	report := map[string]any{"type": "job_ack", "job_id": job.JobID, "attempt_id": job.AttemptID}
	_ = n.send(ctx, ws, report)
	run.Sleep(ctx, blockWork)
	if !n.end(job) {
		return // it was cancelled
	}
	report["type"], report["result"] = "job_result", map[string]any{"text_tgt": n.id}
	_ = n.send(ctx, ws, report)
	if rand.N(3) == 0 {
		n.block(ctx)
	}
}

// end ends a job, and reports whether the node had it.
func (n *blockingNode) end(job wire.ActiveJob) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	had := n.active[job]
	delete(n.active, job)
	return had
}

// send sends a message, with the list of the jobs.
func (n *blockingNode) send(ctx context.Context, ws *websocket.Conn, m map[string]any) error {
	if kind := m["type"]; kind == "node_register" || kind == "node_heartbeat" {
		n.mu.Lock()
		active := make([]wire.ActiveJob, 0, len(n.active))
		for job := range n.active {
			active = append(active, job)
		}
		n.mu.Unlock()
		m["active"] = active
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	n.gate.RLock()
	defer n.gate.RUnlock()
	return ws.Write(ctx, websocket.MessageText, text)
}

// gatedConn is a connection from which nothing is read while the gate is locked.
type gatedConn struct {
	net.Conn
	gate *sync.RWMutex
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.RLock()
	defer c.gate.RUnlock()
	return n, err
}
