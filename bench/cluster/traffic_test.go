package cluster

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

var (
	trafficNodes = flag.Int("traffic-nodes", 20_000, "nodes of BenchmarkTraffic, a third for each instance")
	trafficFor   = flag.Duration("traffic-for", time.Minute, "how long BenchmarkTraffic counts in each situation")
)

const (
	trafficInstances = 3
	jobNodes         = 200              // that can do these jobs, at another instance
	heldJobs         = 500              // that the instance which is killed has in flight
	maxTakeover      = 10 * time.Second // from its death until another instance has its jobs and messages
)

// traffic is what Redis received and sent in some time.
type traffic struct {
	seconds  float64
	sent     int64 // commands of clients
	all      int64 // with those that scripts call
	in, out  int64 // bytes
	commands map[string]int64
}

// trafficMeter measures the traffic of a server.
type trafficMeter struct {
	server *redistest.Server
	sent   atomic.Int64 // commands of clients so far, while they are counted
}

// bytes returns how many bytes the server has received and sent so far.
func (m *trafficMeter) bytes(tb testing.TB) (in, out int64) {
	tb.Helper()
	reply, err := m.server.Do("INFO", "stats")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(fmt.Sprint(reply)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch number, _ := strconv.ParseInt(value, 10, 64); name {
		case "total_net_input_bytes":
			in = number
		case "total_net_output_bytes":
			out = number
		}
	}
	return in, out
}

// measure measures the traffic for a time, if monitored with the number of commands that clients sent: the server reports all of them then,
// which would distort the bytes.
func (m *trafficMeter) measure(tb testing.TB, duration time.Duration) traffic {
	tb.Helper()
	in, out := m.bytes(tb)
	before, sent, began := m.server.CommandStats(), m.sent.Load(), time.Now()
	run.Sleep(tb.Context(), duration)
	after := m.server.CommandStats()
	t := traffic{seconds: time.Since(began).Seconds(), sent: m.sent.Load() - sent, commands: make(map[string]int64)}
	for name, n := range after {
		if name == "info" {
			continue
		}
		if d := n - before[name]; d > 0 {
			t.commands[name] = d
			t.all += d
		}
	}
	inAfter, outAfter := m.bytes(tb)
	t.in, t.out = inAfter-in, outAfter-out
	return t
}

// countSent counts the commands of clients until the end of the test.
func (m *trafficMeter) countSent(tb testing.TB) {
	tb.Helper()
	clustertest.MonitorCommands(tb, m.server, func(c redistest.Command) {
		if !c.Script && !strings.EqualFold(c.Words[0], "info") {
			m.sent.Add(1)
		}
	}, func() {}, func(err error) { tb.Error(err) })
}

// row returns the traffic as a row of a table, for each instance and second.
func (t *traffic) row(situation string) []string {
	each := t.seconds * trafficInstances
	sent := "–"
	if t.sent > 0 {
		sent = fmt.Sprintf("%.1f", float64(t.sent)/each)
	}
	by := make(map[string]float64, len(t.commands))
	for name, n := range t.commands {
		by[name] = float64(n) / each
	}
	most := cost{byCommand: by}
	return []string{
		situation, sent, fmt.Sprintf("%.1f", float64(t.all)/each), fmt.Sprintf("%.1f", float64(t.in)/each/1000), fmt.Sprintf("%.1f", float64(t.out)/each/1000), most.String(),
	}
}

// sendAll sends a command to all instances at once and returns the sum of their heartbeats.
func sendAll(tb testing.TB, all []*instance, c command) (beats int) {
	tb.Helper()
	var mu sync.Mutex
	var failures error
	var sending sync.WaitGroup
	for _, i := range all {
		sending.Go(func() {
			r, err := i.send(c)
			mu.Lock()
			defer mu.Unlock()
			beats += r.Beats
			failures = errors.Join(failures, err)
		})
	}
	sending.Wait()
	if failures != nil {
		tb.Fatal(failures)
	}
	return beats
}

// settle is how long instances run before they are measured: they have compared their fleets by then.
const settle = 35 * time.Second

// idleTraffic measures instances without nodes, and with nodes that send no heartbeats.
func idleTraffic(tb testing.TB, each int) (empty, idle traffic) {
	tb.Helper()
	m := &trafficMeter{server: redistest.Start(tb)}
	all := startInstances(tb, m.server.URL(), trafficInstances)
	m.countSent(tb)
	run.Sleep(tb.Context(), settle)
	empty = m.measure(tb, *trafficFor)
	sendAll(tb, all, command{Connect: each})
	waitNodes(tb, all, each*len(all))
	run.Sleep(tb.Context(), settle)
	return empty, m.measure(tb, *trafficFor)
}

// BenchmarkTraffic measures the traffic between three instances and Redis: without nodes, with nodes that send no heartbeats, and with
// heartbeats at the default interval; and the time in which an instance that owned a third of the nodes is taken over after kill -9.
func BenchmarkTraffic(b *testing.B) {
	each := *trafficNodes / trafficInstances
	for b.Loop() {
		empty, idle := idleTraffic(b, each)
		m := &trafficMeter{server: redistest.Start(b)}
		all := startInstances(b, m.server.URL(), trafficInstances, defaultTimesVariable+"=1")
		sendAll(b, all[1:2], command{Register: jobNodes})
		sendAll(b, all, command{Connect: each, Beat: true})
		waitNodes(b, all, each*len(all)+jobNodes)
		run.Sleep(b.Context(), settle)
		before := sendAll(b, all, command{})
		beating := m.measure(b, *trafficFor)
		beats := float64(sendAll(b, all, command{}) - before)

		rows := [][]string{{"each instance, a second", "sent", "with those in scripts", "kB to Redis", "kB from Redis", "most frequent"}}
		rows = append(rows, empty.row("without nodes"), idle.row(fmt.Sprintf("%d nodes, no heartbeats", each*trafficInstances)),
			beating.row(fmt.Sprintf("%d nodes, %.0f heartbeats a second", each*trafficInstances, beats/beating.seconds)))
		printTable("Traffic between three instances and Redis (bytes of the first two with those of MONITOR)", rows)
		base := float64(empty.all) / empty.seconds * beating.seconds
		fmt.Printf("\na heartbeat: %.2f commands with those in scripts, %.2f scripts, %.0f bytes to Redis, %.0f bytes from it\n",
			(float64(beating.all)-base)/beats, float64(beating.commands["evalsha"])/beats, float64(beating.in)/beats, float64(beating.out)/beats)
		measureTakeover(b, m.server, all)
	}
	b.ReportMetric(0, "ns/op")
}

// measureTakeover kills an instance and measures how long the others take to take over.
func measureTakeover(b *testing.B, server *redistest.Server, all []*instance) {
	b.Helper()
	dead, err := all[0].send(command{Hold: true, Submitters: localWorkers, Jobs: heldJobs})
	if err != nil || dead.InFlight == 0 {
		b.Fatalf("%d jobs in flight: %v", dead.InFlight, err)
	}
	died := time.Now()
	all[0].killed = true
	all[0].KillAndWait()
	var taken, lost time.Duration
	eventually(b, func() error {
		listed, err := server.Do("ZSCORE", "lingua:schedulers:all", string(dead.Instance))
		if err != nil || listed != nil {
			return fmt.Errorf("the dead instance is not taken over: %v, %w", listed, err)
		}
		taken = time.Since(died)
		return nil
	})
	eventually(b, func() error {
		left := 0
		for _, i := range all[1:] {
			r, err := i.send(command{})
			if err != nil {
				return err
			}
			left = max(left, r.Nodes)
		}
		if left > *trafficNodes/trafficInstances*(trafficInstances-1)+jobNodes {
			return fmt.Errorf("%d nodes are in view", left)
		}
		lost = time.Since(died)
		return nil
	})
	fmt.Printf("takeover: %.1f s after kill -9 of an instance with a third of the nodes and %d jobs in flight, these were taken over; %.1f s after it none of its nodes was in view any more\n",
		taken.Seconds(), dead.InFlight, lost.Seconds())
	if taken > maxTakeover {
		b.Errorf("the takeover took %v, want at most %v", taken, maxTakeover)
	}
}
