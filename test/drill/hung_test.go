package drill

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/stalltest"
	"github.com/lingua-scheduler/lingua/wire"
)

var (
	hungSessions = flag.Int("drill-hung-sessions", 10, "the number of sessions of the instance that TestInstanceHangs stops")
	hungRounds   = flag.Int("drill-hung-rounds", 1, "how often TestInstanceHangs stops an instance")
)

const (
	noticeLimit = 5 * time.Second // within which the sessions and nodes of an instance that hangs connect again
	lateLimit   = 8 * time.Second // within which each session has its next result, and how late any result is
	hungNodes   = 8               // half of them connected to the instance that hangs
	hungWork    = 300 * time.Millisecond
)

// TestInstanceHangs stops an instance that has many sessions and half of the nodes, and does not continue it before all of them have
// results again: to its peers that is the same as a host without power. Nothing closes their connections: half of the peers have a list of
// instances, and the others a balancer that only stops to send new connections. In full:
//
//	go test -count=1 -v -run TestInstanceHangs ./test/drill -drill-hung-sessions 100 -drill-hung-rounds 3
func TestInstanceHangs(t *testing.T) {
	t.Parallel()
	c := startTestCluster(t, buildOnce(t), *drillTopology, rand.New(rand.NewPCG(1, 0)), []byte(commonSettings))
	for round := range *hungRounds {
		hung := c.Instances[round%len(c.Instances)]
		d := hangDrill{testCluster: c, hung: hung, round: round}
		d.run()
	}
}

// hangDrill is one stop of one instance.
type hangDrill struct {
	*testCluster
	hung    *clustertest.Instance
	round   int
	running sync.WaitGroup
}

// peerTimes is what a session or a node saw of the stop.
type peerTimes struct {
	mu        sync.Mutex
	stoppedAt time.Time     // zero: it runs
	noticed   time.Duration // until the next connection was tried
	next      time.Duration // until the first result of an utterance over a later connection
	latest    time.Duration // the longest time from the end of an utterance to its result
	failed    []string
}

func (d *hangDrill) run() {
	t := d.TB
	ctx, stop := context.WithCancel(t.Context())
	defer d.running.Wait()
	defer stop()
	stalls, stopStalls := stalltest.Start()
	defer stopStalls()
	var nodes, sessions []*peerTimes
	for n := range hungNodes {
		p, stopNode := d.startNode(n)
		defer stopNode()
		nodes = append(nodes, p)
	}
	d.nodeCount = hungNodes
	d.Must(d.waitAllNodes())
	for n := range *hungSessions {
		sessions = append(sessions, d.startSession(ctx, n))
	}
	run.Sleep(ctx, 2*time.Second) // utterances are in all phases

	at := time.Now()
	for _, p := range append(slices.Clone(nodes), sessions...) {
		p.mu.Lock()
		p.stoppedAt = at
		p.mu.Unlock()
	}
	d.Must(d.hung.Process.Stop(ctx))
	d.Must(clustertest.Eventually(ctx, time.Minute, func() error {
		for n, p := range sessions {
			if !p.hasNext() {
				return fmt.Errorf("session %d has had no result since the instance was stopped", n)
			}
		}
		return nil
	}))
	run.Sleep(ctx, 2*time.Second) // later results may be later than the next
	d.Must(d.hung.Process.Continue())
	d.report("sessions", sessions, stalls.Total())
	d.report("nodes of the instance", nodes[:hungNodes/2], stalls.Total())
}

func (p *peerTimes) hasNext() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next > 0
}

// report prints the times of peers and compares them with the limits. Time in which the machine was stalled does not count.
func (d *hangDrill) report(what string, peers []*peerTimes, stalled time.Duration) {
	d.TB.Helper()
	var noticed, next, latest []time.Duration
	for n, p := range peers {
		p.mu.Lock()
		noticed, next, latest = append(noticed, p.noticed), append(next, p.next), append(latest, p.latest)
		for _, failure := range p.failed {
			d.TB.Errorf("%s, %d: %s", what, n, failure)
		}
		p.mu.Unlock()
	}
	for _, figure := range []struct {
		name   string
		values []time.Duration
		limit  time.Duration
	}{{"connected again", noticed, noticeLimit}, {"next result", next, lateLimit}, {"result after its utterance", latest, lateLimit}} {
		slices.Sort(figure.values)
		p50, highest := figure.values[len(figure.values)/2], figure.values[len(figure.values)-1]
		if highest == 0 {
			continue // nodes have no results
		}
		d.TB.Logf("round %d, %d %s: %s: p50 %v, max %v", d.round, len(peers), what, figure.name, p50.Round(time.Millisecond), highest.Round(time.Millisecond))
		if highest > figure.limit+stalled || figure.values[0] == 0 {
			d.TB.Errorf("%s: %s: %v to %v; want at most %v, and %v in which the machine was stalled", what, figure.name, figure.values[0], highest, figure.limit, stalled)
		}
	}
}

// connections returns the addresses of a peer, and a client that makes its first connection to the instance that will hang, and the next
// one after the stop to another.
func (d *hangDrill) connections(n int, balancer *clustertest.Balancer, p *peerTimes) (urls []string, httpClient *http.Client) {
	byAddress := map[string]string{} // to where a connection to an address goes
	var others []string
	for _, i := range d.Instances {
		if i != d.hung {
			others = append(others, i.Addr())
		}
		urls = append(urls, "http://127.0.1."+strings.TrimPrefix(i.Name, "i-")+":80")
	}
	if n%2 == 1 {
		urls = []string{balancer.URL()}
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		p.mu.Lock()
		if len(byAddress) == 0 { // whichever address comes first
			byAddress[address] = d.hung.Addr()
		} else if len(urls) == 1 {
			byAddress[address] = address
		} else if byAddress[address] == "" {
			byAddress[address], others = others[0], others[1:]
		}
		to := byAddress[address]
		if !p.stoppedAt.IsZero() && p.noticed == 0 {
			p.noticed = time.Since(p.stoppedAt)
		}
		p.mu.Unlock()
		return new(net.Dialer).DialContext(ctx, network, to)
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	return urls, &http.Client{Transport: transport}
}

// startNode runs a node. The first half of the nodes is connected to the instance that will hang.
func (d *hangDrill) startNode(n int) (p *peerTimes, stop func()) {
	p = new(peerTimes)
	cfg := node.Config{ID: fmt.Sprintf("node-%d-%d", d.round, n), Slots: 2 + *hungSessions/2}
	for _, i := range d.Instances {
		if i != d.hung {
			cfg.URLs = append(cfg.URLs, i.URL())
		}
	}
	if n < hungNodes/2 {
		cfg.URLs, cfg.HTTPClient = d.connections(n, d.NodeBalancer, p)
	}
	return p, fleet.StartNodes(d.TB, func(ctx context.Context, _ *node.Job) (node.Result, error) {
		run.Sleep(ctx, hungWork)
		return node.Result{TextTgt: "hola"}, ctx.Err()
	}, cfg)
}

// startSession starts a session that has an utterance every second, all the time.
func (d *hangDrill) startSession(ctx context.Context, n int) *peerTimes {
	p := new(peerTimes)
	cfg := client.Config{Start: wire.SessionStart{
		SessionID: fmt.Sprintf("session-%d-%d", d.round, n), Audio: wire.SessionAudio{SampleRate: clustertest.SampleRate},
		Segmentation: wire.SessionSegmentation{Mode: wire.SegmentManual},
	}}
	cfg.URLs, cfg.HTTPClient = d.connections(n, d.ClientBalancer, p)
	s, err := fleet.Start(ctx, cfg)
	d.Must(err)
	var committed sync.Map // when each utterance ended
	d.running.Go(func() {
		for u := 0; run.SleepJitter(ctx, 600*time.Millisecond, 0.5); u++ {
			id := fmt.Sprint(u)
			if s.Begin(wire.UtteranceStart{UtteranceID: id}) != nil {
				return // the loop below has the error
			}
			for range 4 {
				_, _ = s.Write(tone)
				run.Sleep(ctx, 100*time.Millisecond)
			}
			committed.Store(id, time.Now())
			_ = s.Commit()
		}
	})
	d.running.Go(func() {
		resumed := false
		for e, err := range s.Events() {
			p.mu.Lock()
			switch v := e.(type) {
			case nil:
				if ctx.Err() == nil {
					p.failed = append(p.failed, err.Error())
				}
			case client.SessionResumed:
				resumed = true
			case client.UtteranceFailed:
				p.failed = append(p.failed, fmt.Sprintf("utterance %s: %v", v.UtteranceID, v.Err))
			case client.Result:
				at, _ := committed.Load(v.UtteranceID)
				p.latest = max(p.latest, time.Since(at.(time.Time)))
				if resumed && p.next == 0 {
					p.next = time.Since(p.stoppedAt)
				}
			}
			p.mu.Unlock()
		}
		_ = s.Close()
	})
	return p
}
