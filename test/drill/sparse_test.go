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

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/wire"
)

var (
	sparseNodes = flag.Int("drill-sparse-nodes", 12, "the number of nodes of TestSparseHeartbeats")
	sparseFor   = flag.Duration("drill-sparse-for", 20*time.Second, "for how long they work")
)

// sparseStopped is how many nodes are stopped at the end, and sparseNotice within which time that must be seen: the default of
// presence_ttl_ms, and a second.
const (
	sparseStopped = 3
	sparseNotice  = 16 * time.Second
)

// TestSparseHeartbeats runs nodes that send a heartbeat every 30 or 60 s, as the design documents describe them, with more requests than they
// have slots. They always count as present, have never more jobs than slots, and lose none; at the end no slot is taken, and nodes that
// stop are noticed. In full:
//
//	go test -count=1 -v -run TestSparseHeartbeats -timeout 20m ./test/drill -drill-sparse-nodes 100 -drill-sparse-for 10m
func TestSparseHeartbeats(t *testing.T) {
	t.Parallel()
	c := startTestCluster(t, buildOnce(t), *drillTopology, rand.New(rand.NewPCG(1, 0)), []byte(commonSettings))
	d := &sparseDrill{testCluster: c, http: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}}
	defer d.http.CloseIdleConnections()
	ctx, stop := context.WithCancel(t.Context())
	var running, calling sync.WaitGroup
	defer running.Wait()
	defer stop()
	var nodes []*sparseNode
	for n := range *sparseNodes {
		node := d.newNode(n)
		nodes = append(nodes, node)
		running.Go(func() { node.run(ctx) })
	}
	c.Must(clustertest.Eventually(ctx, time.Minute, func() error {
		if present, _, err := d.fleet(ctx); err != nil || present < len(nodes) {
			return fmt.Errorf("%d of %d nodes are present: %w", present, len(nodes), err)
		}
		return nil
	}))

	load, stopLoad := context.WithCancel(ctx)
	for range len(nodes) + len(nodes)/4 {
		calling.Go(func() { d.call(load) })
	}
	checks, missing := 0, 0
	for end := time.Now().Add(*sparseFor); time.Now().Before(end); checks++ {
		run.Sleep(ctx, 250*time.Millisecond)
		present, _, err := d.fleet(ctx)
		c.Must(err)
		if present < len(nodes) {
			t.Errorf("only %d of %d nodes are present", present, len(nodes))
			missing += len(nodes) - present
		}
	}
	d.timeStop(ctx, nodes[:sparseStopped])
	stopLoad()
	calling.Wait()
	c.Must(clustertest.Eventually(ctx, time.Minute, func() error {
		_, taken, err := d.fleet(ctx)
		if err != nil || taken > 0 || d.unfinished() > 0 {
			return fmt.Errorf("%d slots are still taken and %d jobs have not been done: %w", taken, d.unfinished(), err)
		}
		return nil
	}))
	done, oversold := 0, 0
	for _, node := range nodes {
		done += int(node.done.Load())
		oversold += int(node.oversold.Load())
	}
	for node := range d.blamed.Range {
		t.Errorf("%v was set aside or ejected, although it has acknowledged its jobs", node)
	}
	violations, _ := c.auditResult()
	t.Logf("%d nodes, %v: %d jobs done, %d oversold, %d violations in Redis; in %d checks a node was missing %d times", len(nodes), *sparseFor, done, oversold, len(violations), checks, missing)
	if oversold > 0 || len(violations) > 0 || done == 0 {
		t.Errorf("%d jobs done, %d oversold, violations: %v", done, oversold, violations)
	}
}

// sparseDrill has what nodes and callers share.
type sparseDrill struct {
	*testCluster
	http     *http.Client
	accepted sync.Map // jobs that were accepted, and are not done
	done     sync.Map // jobs that are done
	blamed   sync.Map // nodes that were set aside or ejected
}

// post sends a request to a random instance.
func (d *sparseDrill) post(ctx context.Context, path string, body, answer any) error {
	return (&lab.API{URL: d.Instances[rand.IntN(len(d.Instances))].URL(), HTTP: d.http}).Post(ctx, path, body, answer)
}

// fleet returns how many nodes a random instance sees as ready, and how many of their slots are taken.
func (d *sparseDrill) fleet(ctx context.Context) (present, taken int, err error) {
	var list wire.NodeList
	if err := d.Instances[rand.IntN(len(d.Instances))].Read(ctx, "/v1/nodes?limit=1000", &list); err != nil {
		return 0, 0, err
	}
	for i := range list.Nodes {
		if n := &list.Nodes[i]; n.Online && !n.Disconnected && n.Health == "ready" {
			present++
			taken += n.EffectiveLoad
			if n.SetAsideMS > 0 || n.Admission != nil {
				d.blamed.Store(n.NodeID, true)
			}
		}
	}
	return present, taken, nil
}

// call dispatches one job after the other.
func (d *sparseDrill) call(ctx context.Context) {
	for run.SleepJitter(ctx, time.Second, 1) {
		var placed wire.DispatchResponse
		body := wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "zh", AudioRef: "blob://a", Options: wire.DispatchOptions{MaxWaitMS: new(int64(2000))}}
		if d.post(ctx, "/v1/dispatch/f2f", body, &placed) != nil {
			continue // all slots are taken
		}
		if _, done := d.done.Load(placed.JobID); !done {
			d.accepted.Store(placed.JobID, true)
		}
	}
}

// unfinished counts the accepted jobs that are not done.
func (d *sparseDrill) unfinished() (n int) {
	for job := range d.accepted.Range {
		if _, done := d.done.Load(job); done {
			d.accepted.Delete(job)
		} else {
			n++
		}
	}
	return n
}

// timeStop stops nodes and measures after what time an instance knows.
func (d *sparseDrill) timeStop(ctx context.Context, nodes []*sparseNode) {
	began := time.Now()
	for _, node := range nodes {
		node.stopped.Store(true)
	}
	noticed := make(map[string]time.Duration)
	d.Must(clustertest.EventuallyEvery(ctx, 50*time.Millisecond, 2*sparseNotice, func() error {
		for _, node := range nodes {
			if noticed[node.id] > 0 {
				continue
			}
			var n wire.Node
			if err := d.Instances[rand.IntN(len(d.Instances))].Read(ctx, "/v1/nodes/"+node.id, &n); err != nil {
				return err
			}
			if !n.Online || n.Disconnected {
				noticed[node.id] = time.Since(began)
			}
		}
		if len(noticed) < len(nodes) {
			return fmt.Errorf("of %d stopped nodes %d were noticed: %v", len(nodes), len(noticed), noticed)
		}
		return nil
	}))
	d.TB.Logf("nodes were stopped; noticed after %v", noticed)
	for id, took := range noticed {
		if took > sparseNotice {
			d.TB.Errorf("it took %v to notice that %s has stopped, more than %v", took, id, sparseNotice)
		}
	}
}

// sparseNode is a node with one slot, as the design documents describe it, whose frames are not those of package node.
type sparseNode struct {
	*sparseDrill
	id        string
	heartbeat time.Duration

	stopped  atomic.Bool // it neither reads nor writes any more; its connection stays open
	working  atomic.Int64
	oversold atomic.Int64
	done     atomic.Int64
}

func (d *sparseDrill) newNode(n int) *sparseNode {
	return &sparseNode{sparseDrill: d, id: fmt.Sprint("sparse-", n), heartbeat: time.Duration(1+n%2) * 30 * time.Second}
}

// run connects, and again when the connection is lost, until the context ends.
func (n *sparseNode) run(ctx context.Context) {
	for ctx.Err() == nil && !n.stopped.Load() {
		err := n.serve(ctx)
		if ctx.Err() == nil && !n.stopped.Load() {
			n.TB.Errorf("%s: %v", n.id, err)
		}
		run.Sleep(ctx, 100*time.Millisecond)
	}
}

// declaration is what registrations and heartbeats say.
func (n *sparseNode) declaration(kind string) map[string]any {
	return map[string]any{
		"type": kind, "node_id": n.id, "language_capabilities": map[string]any{"asr_langs": []string{"en", "zh"}, "semantic_langs": []string{"en", "zh"}},
		"cpu_usage": 20, "gpu_usage": -1, "current_jobs": n.working.Load(),
	}
}

func (n *sparseNode) serve(ctx context.Context) error {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return &stoppableConn{Conn: c, node: n, closed: make(chan struct{})}, err
	}
	url := strings.Replace(n.Instances[rand.IntN(len(n.Instances))].URL(), "http", "ws", 1) + "/ws/node"
	transport := &http.Transport{DialContext: dial}
	defer transport.CloseIdleConnections()
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	ctx, stop := context.WithCancel(ctx)
	var jobs sync.WaitGroup
	defer jobs.Wait()
	defer stop()
	if err := n.send(ctx, ws, "node_register"); err != nil {
		return err
	}
	jobs.Go(func() {
		for run.Sleep(ctx, n.heartbeat) {
			_ = n.send(ctx, ws, "node_heartbeat") // the read below has the error
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
			jobs.Go(func() { n.work(ctx, m.ActiveJob) })
		case "error":
			return fmt.Errorf("an error: %s", text)
		}
	}
}

func (n *sparseNode) send(ctx context.Context, ws *websocket.Conn, kind string) error {
	text, err := json.Marshal(n.declaration(kind))
	if err != nil {
		return err
	}
	return ws.Write(ctx, websocket.MessageText, text)
}

// work does a job, and reports it over HTTP.
func (n *sparseNode) work(ctx context.Context, job wire.ActiveJob) {
	report := map[string]any{"job_id": job.JobID, "attempt_id": job.AttemptID, "node_id": n.id}
	var answer map[string]any
	if err := n.post(ctx, "/v1/job/ack", report, &answer); err != nil {
		return // it is another node's
	}
	if n.working.Add(1) > 1 {
		n.oversold.Add(1)
	}
	worked := run.SleepJitter(ctx, time.Second, 0.5)
	n.working.Add(-1)
	report["status"], report["result"] = "ok", map[string]any{"text_tgt": n.id}
	if worked && !n.stopped.Load() && n.post(ctx, "/v1/job/done", report, &answer) == nil {
		n.sparseDrill.done.Store(job.JobID, true)
		n.done.Add(1)
	}
}

// stoppableConn is the connection of a node. After the node has stopped, nothing is read from it or written to it.
type stoppableConn struct {
	net.Conn
	node   *sparseNode
	once   sync.Once
	closed chan struct{}
}

// Read implements io.Reader.
func (c *stoppableConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.node.stopped.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

// Write implements io.Writer.
func (c *stoppableConn) Write(b []byte) (int, error) {
	if c.node.stopped.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Close implements io.Closer.
func (c *stoppableConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
