package guards

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/wire"
)

// The loads, a second.
const (
	statsRate   = 2_000
	reportRate  = 5_000
	enqueueRate = 50_000

	reportNodes  = 100
	statsClients = 32
)

// generatorVariable makes a process of this test binary a generator of load.
const generatorVariable = "LINGUA_GUARDS_GENERATOR"

// TestMain runs a generator if this process was started as one.
func TestMain(m *testing.M) {
	if os.Getenv(generatorVariable) != "" {
		if err := generate(); err != nil {
			fmt.Fprintln(os.Stderr, "generator:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// load is a command to a generator: a load that lasts until the next command. Without a rate it connects nodes to the URL, or ends the load.
type load struct {
	URL     string
	Rate    int  // a second
	Reports bool // of services that are not available, over the WebSockets of nodes; else GET requests
}

// sent is what a generator has sent of one load.
type sent struct {
	Sent, Failed int64
	Err          string
}

// generator is a process that generates load.
type generator struct {
	t       *testing.T
	process *clustertest.Helper
	sent    map[string]sent // by URL
	windows map[string]int
}

func startGenerator(t *testing.T) *generator {
	t.Helper()
	h, err := clustertest.StartHelper(os.Stderr, generatorVariable+"=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.CloseInput()
		if err := h.WaitExit(10 * time.Second); err != nil {
			t.Error(err)
		}
	})
	return &generator{t: t, process: h, sent: make(map[string]sent), windows: make(map[string]int)}
}

// command sends a command and returns its answer.
func (g *generator) command(l load) (s sent) {
	g.t.Helper()
	line, _ := json.Marshal(l) // of plain fields: it cannot fail
	if err := g.process.WriteLine(line); err != nil {
		g.t.Fatal(err)
	}
	answer, err := g.process.ReadLine()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(answer), &s); err != nil {
		g.t.Fatal(err)
	}
	if s.Err != "" {
		g.t.Fatal(s.Err)
	}
	return s
}

// connect connects nodes to a URL.
func (g *generator) connect(url string) { g.command(load{URL: url, Reports: true}) }

// begin begins a load, and returns what ends it.
func (g *generator) begin(l load) (end func()) {
	g.command(l)
	return func() {
		s := g.command(load{})
		g.windows[l.URL]++
		sum := g.sent[l.URL]
		g.sent[l.URL] = sent{Sent: sum.Sent + s.Sent, Failed: sum.Failed + s.Failed}
		if s.Failed > 0 {
			g.t.Errorf("%d of %d to %s failed", s.Failed, s.Sent, l.URL)
		}
	}
}

// summary says how much was sent.
func (g *generator) summary() string {
	var all []string
	for url, s := range g.sent {
		all = append(all, fmt.Sprintf("%d to %s, %.0f a second", s.Sent, url, float64(s.Sent)/(float64(g.windows[url])*window.Seconds())))
	}
	return strings.Join(all, "; ")
}

// generate is the process of a generator.
func generate() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	p := &generatorProcess{nodes: make(map[string][]*websocket.Conn), end: func() sent { return sent{} }}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var l load
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return err
		}
		s := p.end()
		p.end = func() sent { return sent{} }
		switch {
		case l.Rate > 0 && l.Reports:
			p.end = p.run(ctx, l, p.report)
		case l.Rate > 0:
			p.end = p.run(ctx, l, p.request)
		case l.Reports:
			if err := p.connect(ctx, l.URL); err != nil {
				s.Err = err.Error()
			}
		}
		_ = json.NewEncoder(os.Stdout).Encode(s)
	}
	return nil
}

// generatorProcess is the state of a generator.
type generatorProcess struct {
	nodes map[string][]*websocket.Conn // by URL
	end   func() sent                  // ends the load in progress
}

// run sends at the rate of a load until it is ended.
func (p *generatorProcess) run(ctx context.Context, l load, send func(ctx context.Context, l load, i int) error) (end func() sent) {
	ctx, cancel := context.WithCancel(ctx)
	due := make(chan int, l.Rate)
	var count, failed atomic.Int64
	var running sync.WaitGroup
	for range statsClients {
		running.Go(func() {
			for i := range due {
				err := send(ctx, l, i)
				if ctx.Err() != nil {
					continue
				}
				count.Add(1)
				if err != nil {
					failed.Add(1)
				}
			}
		})
	}
	running.Go(func() {
		defer close(due)
		inprocess.CallAtRate(ctx, time.Hour, l.Rate, func(i int) {
			select {
			case due <- i:
			case <-ctx.Done():
			}
		})
	})
	return func() sent {
		cancel()
		running.Wait()
		return sent{Sent: count.Load(), Failed: failed.Load()}
	}
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: statsClients}}

// request sends a GET request.
func (p *generatorProcess) request(ctx context.Context, l load, _ int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.URL, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// report sends a report of one of the nodes.
func (p *generatorProcess) report(ctx context.Context, l load, i int) error {
	text, err := wire.EncodeFrame(wire.ModelNotAvailable{ServiceID: fmt.Sprint("service-", i/reportNodes%20), Version: "1.0", Reason: "runtime_error"})
	if err != nil {
		return err
	}
	nodes := p.nodes[l.URL]
	return nodes[i%len(nodes)].Write(context.WithoutCancel(ctx), websocket.MessageText, text) // a write that is cancelled closes the connection
}

// connect connects nodes, which serve no direction that is dispatched. They have no package node, to send as many reports as they are told.
func (p *generatorProcess) connect(ctx context.Context, url string) error {
	slots := 1
	for i := range reportNodes {
		ws, _, err := websocket.Dial(ctx, strings.Replace(url, "http", "ws", 1)+"/ws/node", &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}})
		if err != nil {
			return err
		}
		text, err := wire.EncodeFrame(wire.NodeRegister{NodeID: fmt.Sprintf("reporting-%03d", i), Declaration: wire.Declaration{
			SemanticLangs: []string{"fr", "de"}, MaxConcurrentJobs: &slots,
		}})
		if err != nil {
			return err
		}
		if err := ws.Write(ctx, websocket.MessageText, text); err != nil {
			return err
		}
		if _, _, err := ws.Read(ctx); err != nil {
			return err
		}
		p.nodes[url] = append(p.nodes[url], ws)
		go func() {
			for err := error(nil); err == nil; {
				_, _, err = ws.Read(ctx)
			}
		}()
	}
	return nil
}

// startSink starts a server whose WebSockets decode messages and do nothing with them. It returns its URL.
func startSink(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
		if err != nil {
			return
		}
		defer ws.CloseNow()
		_ = ws.Write(r.Context(), websocket.MessageText, []byte("{}")) // the generator waits for an answer
		for {
			_, text, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			var m wire.ModelNotAvailable
			_ = json.Unmarshal(text, &m)
		}
	}))
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	return server.URL
}
