package drill

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
	"github.com/lingua-scheduler/lingua/test/stalltest"
)

const (
	warmUp            = time.Second      // before the first fault
	faultInterval     = 2 * time.Second  // after each fault
	answerLimit       = 10 * time.Second // in which an utterance that no fault overlaps has its terminal message
	loadStopTimeout   = 60 * time.Second // in which all sessions and calls end after the last utterance
	nodeStopTimeout   = 30 * time.Second
	slotsPerNode      = 8
	malformedMessages = 3 // before the faults, and again after them
)

// drill is a list of faults, and what is checked beside the guarantees. After each fault was injected once, further ones
// are chosen at random.
type drill struct {
	faults      []fault
	timeouts    timeouts
	topology    string // of Redis; empty: the one that -drill-topology says
	callers     int    // 0: as many as -drill-callers says
	wantEvent   string // a kind of event that must be in the event log
	checkKeys   bool   // checks the leftover keys in the short form, too, which takes as long as the timeouts
	watchGrowth bool   // checks that no resource grows
	noBlame     bool   // checks that no node was ejected
}

// run runs the drill, and fails the test for each violation.
func (d drill) run(t *testing.T) {
	t.Parallel()
	d.runWith(t, buildOnce(t)).failTest(t)
}

// runWith runs the drill with a binary of the scheduler, and returns the checker with all violations.
func (d drill) runWith(t *testing.T, binary string) *checker {
	t.Helper()
	seed := *drillSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	c := startTestCluster(t, binary, cmp.Or(d.topology, *drillTopology), rand.New(rand.NewPCG(seed, 0)), d.timeouts.settings())
	c.sparesFirst = d.watchGrowth
	l := c.startLoad(t, seed, cmp.Or(d.callers, *drillCallers))

	marks := c.sendMalformed(malformedMessages)
	stalls, stop := stalltest.Start()
	defer stop()
	seen := evidence{answerLimit: answerLimit, multiInstance: len(c.Instances) > 1}
	growth := d.injectFaults(t, c, &seen)
	marks = append(marks, c.sendMalformed(malformedMessages)...)

	violations := l.stop(c, &seen)
	seen.addStalls(stalls.Stalls())
	t.Logf("the machine was stalled for %v, which does not count in the limits", stalls.Total().Round(time.Millisecond))
	deadLetters, err := c.Redis.DeadLetters()
	c.Must(err)
	violations = append(violations, checkDeadLetters(deadLetters, marks)...)
	leftovers := "not checked"
	if d.checkKeys || *drillFor > 0 {
		keys, err := c.leftoverKeys(t.Context(), d.timeouts.retention(), len(marks) > 0)
		c.Must(err)
		for _, key := range keys {
			violations = append(violations, violation{leftoverKey, key})
		}
		leftovers = strconv.Itoa(len(keys))
	}
	if d.wantEvent != "" {
		if err := c.waitEvent(d.wantEvent); err != nil {
			violations = append(violations, violation{missingEvent, err.Error()})
		}
	}
	if d.noBlame {
		violations = append(violations, c.findBlame()...)
	}
	violations = append(violations, growth.growth()...)
	violations = append(violations, c.findCrashes(l.drivers(c)...)...)
	var scripts string
	seen.scriptViolations, scripts = c.auditResult()
	seen.routes = [2]clustertest.Routes{c.ClientBalancer.Routes(), c.NodeBalancer.Routes()}

	result := check(seen)
	result.violations = append(result.violations, violations...)
	b, err := c.Redis.Backlog()
	c.Must(err)
	t.Logf("seed %d, %s, %d instances, %d nodes: %s; Redis ran %s; pending messages %d, dead letters %d of %d malformed messages, leftover keys %s",
		seed, c.Redis.Topology, len(c.Instances), c.nodeCount, result.summary(), scripts, b.Pending+b.Undelivered, len(deadLetters), len(marks), leftovers)
	result.logHistories(t, c.Instances)
	if result.results == 0 {
		t.Error("the drill proves nothing: there was no result")
	}
	return result
}

// load is the drivers of a drill.
type load struct {
	stableNodes                  *clustertest.NodeGroup // those that no fault kills
	callbacks, callers, sessions *clustertest.Driver
}

// startLoad starts all drivers and waits until they are ready.
func (c *testCluster) startLoad(t *testing.T, seed uint64, callers int) *load {
	t.Helper()
	c.nodeCount = *drillNodes
	if c.nodeCount == 0 {
		// A job takes 0.35 s on average, and during a fault half of the nodes may be unavailable.
		c.nodeCount = max(4, int(float64(*drillSessions)*0.7/drillEvery.Seconds()/slotsPerNode)+1)
	}
	l := &load{}
	nodeURL, clientURL := c.NodeBalancer.URL(), c.ClientBalancer.URL()
	l.stableNodes, c.killableNodes = nodeGroups(c.nodeCount, clustertest.DriverConfig{URL: nodeURL, Slots: slotsPerNode, Seed: seed})
	c.Must(l.stableNodes.Start(c.Cluster))
	c.Must(c.killableNodes.Start(c.Cluster))
	start := func(role string, cfg clustertest.DriverConfig) *clustertest.Driver {
		cfg.Seed = seed
		d := clustertest.StartDriver(t, role, c.Dir, cfg)
		c.Must(d.WaitReady(clustertest.StartTimeout))
		return d
	}
	l.callbacks = start(clustertest.CallbackNodes, clustertest.DriverConfig{URL: nodeURL, Name: "callback", Count: *drillCallbacks, Slots: slotsPerNode})
	l.callers = start(clustertest.Callers, clustertest.DriverConfig{URL: clientURL, Name: "caller", Count: callers, Interval: time.Second})
	l.sessions = start(clustertest.Sessions, clustertest.DriverConfig{URL: clientURL, Name: "session", Count: *drillSessions, Interval: *drillEvery})
	return l
}

// stop stops all drivers, those of nodes last, and adds their journals to the evidence.
func (l *load) stop(c *testCluster, seen *evidence) []violation {
	var violations []violation
	report := func(kind string, err error) {
		if err != nil {
			violations = append(violations, violation{kind, err.Error()})
		}
	}
	var err error
	seen.sessions, err = l.sessions.Stop(loadStopTimeout)
	report(unanswered, err)
	seen.callers, err = l.callers.Stop(loadStopTimeout)
	report(unfinishedCall, err)
	report(stuckInbox, c.waitInboxesEmpty())
	for _, stop := range []func(time.Duration) ([]journal.Entry, error){l.stableNodes.Stop, c.killableNodes.Stop, l.callbacks.Stop} {
		entries, err := stop(nodeStopTimeout)
		report(missingNode, err)
		seen.nodes = append(seen.nodes, entries...)
	}
	return violations
}

// drivers returns all drivers that ran.
func (l *load) drivers(c *testCluster) []*clustertest.Driver {
	return slices.Concat([]*clustertest.Driver{l.sessions, l.callers, l.callbacks}, l.stableNodes.Runs, c.killableNodes.Runs)
}

// injectFaults injects each fault once, and then further ones at random until the time of -drill-for is over.
func (d drill) injectFaults(t *testing.T, c *testCluster, seen *evidence) *growthMonitor {
	growth := &growthMonitor{enabled: d.watchGrowth}
	run.Sleep(t.Context(), warmUp)
	growth.takeSample(c)
	for end, n := time.Now().Add(*drillFor), 0; n < len(d.faults) || time.Now().Before(end); n++ {
		f := d.faults[n%len(d.faults)]
		if n >= len(d.faults) {
			f = d.faults[c.rand.IntN(len(d.faults))]
		}
		i := c.injectFault(f)
		seen.injections = append(seen.injections, i)
		t.Logf("%v; the inboxes had caught up after %v, all nodes were connected after %v",
			i, i.inboxesDrainedAfter.Round(time.Millisecond), i.nodesBackAfter.Round(time.Millisecond))
		run.Sleep(t.Context(), faultInterval)
		growth.takeSample(c)
	}
	return growth
}

// findBlame finds nodes that were ejected, or were about to be, although they do what they should. One node of the drill does not.
func (c *testCluster) findBlame() []violation {
	var violations []violation
	for _, i := range c.Instances {
		log, err := os.ReadFile(i.LogPath)
		c.Must(err)
		missed := 0
		for line := range strings.Lines(string(log)) {
			switch {
			case strings.Contains(line, "node_id="+clustertest.AmbiguousNode):
			case strings.Contains(line, "fails much more often than others"):
				violations = append(violations, violation{blamedNode, i.Name + ": " + line})
			case strings.Contains(line, "attempt given up") && strings.Contains(line, "reason="+string(core.ReasonACKTimeout)):
				missed++
			}
		}
		c.TB.Logf("%s: %d attempts were not acknowledged in time", i.Name, missed)
	}
	return violations
}

// waitInboxesEmpty waits until no inbox holds a message, after the load has ended.
func (c *testCluster) waitInboxesEmpty() error {
	return clustertest.Eventually(c.TB.Context(), inboxDrainTimeout, func() error {
		b, err := c.Redis.Backlog()
		if err == nil && !b.Empty() {
			err = fmt.Errorf("%d messages are pending and %d undelivered, the oldest in %s", b.Pending, b.Undelivered, b.OldestIn)
		}
		return err
	})
}

// summary returns all figures in one line.
func (c *checker) summary() string {
	var codes []string
	for _, code := range slices.Sorted(maps.Keys(c.errors)) {
		codes = append(codes, fmt.Sprintf("%s %d", code, c.errors[code]))
	}
	slowest := time.Duration(0)
	for _, i := range c.injections {
		slowest = max(slowest, i.inboxesDrainedAfter)
	}
	return fmt.Sprintf("%d sessions, %d utterances, %d results, errors [%s]; %d faults, %d connections lost, %d resumed, %d not recovered; "+
		"%d of %d results from another instance; %d of %d with complete speech; longest to terminal %v (%s); %s; "+
		"%d jobs in %d attempts, at most %d at once on a node, %d over-assigned, %d rejected by nodes, %d results dropped; inboxes caught up in %v",
		c.sessionCount, c.utterances, c.results, strings.Join(codes, ", "), len(c.injections), c.reconnects, c.resumes, c.unrecovered,
		c.crossInstance, c.located, c.speechComplete, c.speechExpected, c.longest.Round(time.Millisecond), c.longestRequest, c.callSummary(),
		c.jobs, c.attempts, c.maxConcurrent, c.overAssigned, c.rejected, c.dropped, slowest.Round(time.Millisecond))
}

// failTest fails the test for each violation. Of each kind only a few are printed.
func (c *checker) failTest(t *testing.T) {
	t.Helper()
	const limit = 5
	count := make(map[string]int)
	for _, v := range c.violations {
		if count[v.kind]++; count[v.kind] <= limit {
			t.Errorf("%s: %s", v.kind, v.evidence)
		}
	}
	for kind, n := range count {
		if n > limit {
			t.Errorf("%s: %d in all", kind, n)
		}
	}
}
