package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// The maximum number of Redis commands for each operation: what was measured and at most a tenth, so that one more script is
// noticed. One command for each job that releases its slot asks whether a request waits for it.
const (
	maxHeartbeat             = 7
	maxJob                   = 19
	maxJobTwoInstances       = 41
	maxUtterance             = 38
	maxUtteranceTwoInstances = 62
	maxPerOtherInstance      = 5 // a second, for each other instance
	// A second. On average an instance sends less than 10; in the 3 s that a test counts, everything that is done every 5 s to 30 s may
	// happen at once, which are some 40 commands.
	maxIdle = 25
)

// lateCheckDelay is the time after which an instance reads the record of a job about which it received no report, such as a
// job on a node of another instance that no session waits for.
const lateCheckDelay = 2300 * time.Millisecond

// utterancesPerSession is how many utterances a session sends in a row: fewer than an instance accepts without a delay.
const utterancesPerSession = 12

// runSequentially has the sessions send a number of utterances together, never two at the same time.
func runSequentially(tb testing.TB, fleet *nodeFleet, sessions []*testSession, times int) {
	tb.Helper()
	for _, s := range sessions {
		runUtterances(tb, fleet, []*testSession{s}, min(times, utterancesPerSession), 0)
		times -= utterancesPerSession
	}
}

// measureCosts measures the cost of each operation, by running it a number of times.
func measureCosts(tb testing.TB, times int, idleTime time.Duration) []cost {
	tb.Helper()
	m := &commandMeter{server: redistest.Start(tb)}
	var list []cost
	all := startInstances(tb, m.server.URL(), 1)
	m.measureIdle(tb, time.Second) // until Redis has loaded the scripts
	m.measureIdle(tb, idleTime)
	list = append(list, cost{operation: "an instance alone, a second", commands: sum(m.idle), byCommand: m.idle, limit: maxIdle})
	all = append(all, startInstances(tb, m.server.URL(), 2)...)
	m.measureIdle(tb, time.Second) // until the new instances have started up
	m.measureIdle(tb, idleTime)
	three := maps.Clone(m.idle)
	for name := range three {
		three[name] /= 3
	}
	list = append(list, cost{operation: "one of three instances, a second", commands: sum(three), byCommand: three, limit: maxIdle + 2*maxPerOtherInstance})

	fleet := startNodes(tb, all, all[:1], 8, 4)
	heartbeats := connectNode(tb, all[0])
	sessionCount := (times + utterancesPerSession - 1) / utterancesPerSession
	sameInstance, otherInstance := startSessions(tb, all[0], sessionCount), startSessions(tb, all[1], sessionCount)
	registerNode(tb, all[0])
	for _, s := range [][]*testSession{sameInstance, otherInstance} {
		runUtterances(tb, fleet, s[:1], 3, 0)
	}
	dispatchJobs(tb, all[0], fleet, 3)
	dispatchJobs(tb, all[1], fleet, 3)
	run.Sleep(tb.Context(), lateCheckDelay)
	return append(list,
		m.measure("a heartbeat over HTTP", maxHeartbeat, times, func() { sendHTTPHeartbeats(tb, all[0], times) }),
		m.measure("a heartbeat over a socket", maxHeartbeat, times, func() { heartbeats.sendHeartbeats(times) }),
		m.measure("a job without session, one instance", maxJob, times, func() { dispatchJobs(tb, all[0], fleet, times) }),
		m.measure("a job without session, two instances", maxJobTwoInstances, times, func() {
			dispatchJobs(tb, all[1], fleet, times)
			run.Sleep(tb.Context(), lateCheckDelay)
		}),
		m.measure("an utterance, one instance", maxUtterance, times, func() { runSequentially(tb, fleet, sameInstance, times) }),
		m.measure("an utterance, two instances", maxUtteranceTwoInstances, times, func() { runSequentially(tb, fleet, otherInstance, times) }),
	)
}

func sum(by map[string]float64) (all float64) {
	for _, n := range by {
		all += n
	}
	return all
}

// BenchmarkCommands prints how many Redis commands each operation costs.
func BenchmarkCommands(b *testing.B) {
	for b.Loop() {
		rows := [][]string{{"", "commands", "of them scripts", "most frequent"}}
		for _, c := range measureCosts(b, 1000, 4*time.Second) {
			rows = append(rows, []string{c.operation, fmt.Sprintf("%.1f", c.commands), fmt.Sprintf("%.1f", c.scripts()), c.String()})
		}
		printTable("Redis commands for each operation", rows)
	}
	b.ReportMetric(0, "ns/op")
}

// TestCommandsPerOperation checks that no operation costs more Redis commands than its limit.
func TestCommandsPerOperation(t *testing.T) {
	t.Parallel()
	for _, c := range measureCosts(t, 300, 3*time.Second) {
		t.Logf("%s: %.1f commands, of them %.1f scripts: %s", c.operation, c.commands, c.scripts(), c.String())
		if c.commands > c.limit || c.commands == 0 {
			t.Errorf("%s costs %.1f commands, want at most %.0f: %s", c.operation, c.commands, c.limit, c.String())
		}
	}
}

// cost is what one operation costs Redis.
type cost struct {
	operation string
	commands  float64            // including those that scripts call
	byCommand map[string]float64 // the same by name
	limit     float64            // of the commands
}

// scripts returns how many of the commands were scripts, which a caller may wait for.
func (c *cost) scripts() float64 { return c.byCommand["evalsha"] + c.byCommand["evalsha_ro"] }

// String lists the most frequent commands.
func (c *cost) String() string {
	names := slices.SortedFunc(maps.Keys(c.byCommand), func(a, b string) int {
		if c.byCommand[a] != c.byCommand[b] {
			return int(1000 * (c.byCommand[b] - c.byCommand[a]))
		}
		return strings.Compare(a, b)
	})
	var text []string
	for _, name := range names[:min(len(names), 9)] {
		if c.byCommand[name] >= 0.05 {
			text = append(text, fmt.Sprintf("%s %.1f", name, c.byCommand[name]))
		}
	}
	return strings.Join(text, ", ")
}

// commandMeter counts the commands of a server.
type commandMeter struct {
	server *redistest.Server
	idle   map[string]float64 // commands a second without load
}

// counts returns the number of commands so far, without the meter's own.
func (m *commandMeter) counts() map[string]int64 {
	stats := m.server.CommandStats()
	delete(stats, "info")
	return stats
}

// measureIdle measures the commands without load.
func (m *commandMeter) measureIdle(tb testing.TB, duration time.Duration) {
	m.idle = nil
	before, began := m.counts(), time.Now()
	run.Sleep(tb.Context(), duration)
	took := time.Since(began).Seconds()
	m.idle = m.since(before, began).byCommand
	for name := range m.idle {
		m.idle[name] /= took
	}
}

// since returns the commands since a time, without those that run without load.
func (m *commandMeter) since(before map[string]int64, began time.Time) cost {
	c := cost{byCommand: make(map[string]float64)}
	took := time.Since(began).Seconds()
	for name, n := range m.counts() {
		if d := float64(n-before[name]) - m.idle[name]*took; d > 0 {
			c.byCommand[name] = d
			c.commands += d
		}
	}
	return c
}

// measure measures an operation that do runs a number of times.
func (m *commandMeter) measure(operation string, limit float64, times int, do func()) cost {
	before, began := m.counts(), time.Now()
	do()
	c := m.since(before, began)
	c.operation, c.limit, c.commands = operation, limit, c.commands/float64(times)
	for name := range c.byCommand {
		c.byCommand[name] /= float64(times)
	}
	return c
}
