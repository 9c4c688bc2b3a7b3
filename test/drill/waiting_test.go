package drill

import (
	"flag"
	"fmt"
	"math/rand/v2"
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

var drillWaitingFor = flag.Duration("drill-waiting-for", 0, "for how long TestWaiting injects faults; 0: each fault once")

// TestWaiting injects faults while many requests wait for a slot: each has an answer before its wait is over, none is placed later, slots do not stay
// empty, and tenants keep their limits. It measures times, so no other drill runs beside it. In full:
//
//	go test -count=1 -v -timeout 30m -run 'TestWaiting$' ./test/drill -drill-waiting-for 5m
func TestWaiting(t *testing.T) {
	d := &waitingDrill{}
	d.run(t, buildOnce(t), d.waitingFaults()).failTest(t)
}

// The load of the drill: more requests than slots, of three tenants, one of which has a limit.
const (
	waitingNodes    = 24
	waitingCallers  = 42
	waitingSessions = 4
	waitingWork     = time.Second
	limitedTenant   = "limited"
	limitedJobs     = 5
)

// waitingSettings gives tenants weights, and one of them a limit.
const waitingSettings = `
[[scheduler.tenants]]
id = "heavy"
weight = 4

[[scheduler.tenants]]
id = "limited"
weight = 2
max_in_flight = 5
`

// waitingKinds are the kinds of nodes. Some have one slot, and some serve directions that others do not.
var waitingKinds = []clustertest.NodeKind{
	{Langs: []string{"en", "es"}, Slots: 1},
	{Langs: []string{"en", "zh"}, Slots: 2},
	{Langs: []string{"en", "es", "zh"}, Slots: 1},
	{Langs: []string{"de", "en"}, Slots: 1},
	{Langs: []string{"en", "es"}, Slots: 2},
	{Langs: []string{"en", "zh"}, Slots: 1},
}

// waitingTimeouts are those of the other drills, with the default for an ACK: a request is answered when its node has acknowledged the job.
func waitingTimeouts() timeouts {
	t := resumableTimeouts
	t.ack = 2
	return t
}

// isShortWaiting reports whether this is the short form of the drill.
func isShortWaiting() bool { return *drillWaitingFor == 0 && !*drillWaitingMutants }

// waitingSlack is how much later than allowed anything may happen. The short form also runs on machines that are busy with something else;
// the long ones are judged by the limits themselves.
func waitingSlack() time.Duration {
	if isShortWaiting() {
		return 1500 * time.Millisecond
	}
	return 0
}

// waitingDrill is a drill with more requests than slots.
type waitingDrill struct {
	load   *waitingLoad
	frozen []stall // when all processes were stopped
}

// waitingLoad is the drivers of the drill.
type waitingLoad struct {
	nodes             *clustertest.NodeGroup
	callers, sessions *clustertest.Driver
}

// run runs the drill with a binary of the scheduler, and returns all violations.
func (d *waitingDrill) run(t *testing.T, binary string, faults []fault) *waitingChecker {
	t.Helper()
	seed := *drillSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	c := startTestCluster(t, binary, *drillTopology, rand.New(rand.NewPCG(seed, 0)), append(waitingTimeouts().settings(), waitingSettings...))
	kinds := d.start(t, c, seed)
	var ids []core.NodeID
	for id := range kinds {
		ids = append(ids, core.NodeID(id))
	}
	sampler := c.startOccupancySampler(t, ids)
	stalls, stop := stalltest.Start()
	defer stop()
	seen := evidence{answerLimit: answerLimit, multiInstance: true}
	d.injectFaults(t, c, faults, &seen)
	entries, violations := d.stop(c, &seen)
	sampler.end()
	seen.addStalls(stalls.Stalls())
	seen.stalls = append(seen.stalls, d.frozen...)
	t.Logf("the machine was stalled for %v, which does not count in the limits", stalls.Total().Round(time.Millisecond))
	violations = append(violations, d.leftovers(t, c)...)
	violations = append(violations, c.findCrashes(append(slices.Clone(d.load.nodes.Runs), d.load.callers, d.load.sessions)...)...)
	var scripts string
	seen.scriptViolations, scripts = c.auditResult()
	seen.routes = [2]clustertest.Routes{c.ClientBalancer.Routes(), c.NodeBalancer.Routes()}
	checked := check(seen)
	checked.violations = append(checked.violations, violations...)
	result := checkWaiting(checked, waitingEvidence{
		entries: entries, kinds: kinds, free: freeSpans(sampler.nodes, sampler.samples), queued: sampler.queued, outages: outages(sampler.samples), created: c.Auditor.Created(),
		limits: map[string]int{limitedTenant: limitedJobs}, slack: waitingSlack(),
	})
	t.Logf("seed %d, %s, %d instances, %d nodes: %s; Redis ran %s", seed, c.Redis.Topology, len(c.Instances), waitingNodes, result.summary(), scripts)
	t.Logf("%s", result.waitingSummary())
	result.logHistories(t, c.Instances)
	if result.results == 0 || result.waited < 20 || result.maxInFlight[limitedTenant] == 0 {
		t.Error("the drill proves nothing: hardly any request waited")
	}
	return result
}

// start starts all drivers, and returns the kinds of the nodes by their names.
func (d *waitingDrill) start(t *testing.T, c *testCluster, seed uint64) map[string]clustertest.NodeKind {
	t.Helper()
	c.nodeCount = waitingNodes
	nodes := clustertest.DriverConfig{URL: c.NodeBalancer.URL(), Name: "node", Count: waitingNodes, Kinds: waitingKinds, Work: waitingWork, Seed: seed}
	d.load = &waitingLoad{nodes: &clustertest.NodeGroup{Config: nodes}}
	c.Must(d.load.nodes.Start(c.Cluster))
	start := func(role string, cfg clustertest.DriverConfig) *clustertest.Driver {
		cfg.URL, cfg.Seed = c.ClientBalancer.URL(), seed
		driver := clustertest.StartDriver(t, role, c.Dir, cfg)
		c.Must(driver.WaitReady(clustertest.StartTimeout))
		return driver
	}
	var urls []string
	for _, i := range c.Instances {
		urls = append(urls, i.URL())
	}
	d.load.sessions = start(clustertest.Sessions, clustertest.DriverConfig{Name: "session", Count: waitingSessions, Interval: 4 * time.Second})
	d.load.callers = start(clustertest.WaitingCallers, clustertest.DriverConfig{
		Name: "caller", Count: waitingCallers, Instances: urls, Tenants: []string{"heavy", "light", limitedTenant},
	})
	kinds := make(map[string]clustertest.NodeKind)
	for n := range waitingNodes {
		kinds[nodes.NodeName(n)] = nodes.KindOf(n)
	}
	return kinds
}

// processes returns the processes of all drivers.
func (l *waitingLoad) processes() []*clustertest.Process {
	return []*clustertest.Process{l.nodes.Process(), l.callers.Process(), l.sessions.Process()}
}

// injectFaults injects each fault once, and then further ones at random until the time is over. Between them there is calm.
func (d *waitingDrill) injectFaults(t *testing.T, c *testCluster, faults []fault, seen *evidence) {
	run.Sleep(t.Context(), warmUp)
	order := c.rand.Perm(len(faults))
	for end, n := time.Now().Add(*drillWaitingFor), 0; n < len(faults) || time.Now().Before(end); n++ {
		f := faults[order[n%len(faults)]]
		if n >= len(faults) {
			f = faults[c.rand.IntN(len(faults))]
		}
		i := c.injectFault(f)
		seen.injections = append(seen.injections, i)
		t.Logf("%v; the inboxes had caught up after %v, all nodes were connected after %v",
			i, i.inboxesDrainedAfter.Round(time.Millisecond), i.nodesBackAfter.Round(time.Millisecond))
		calm := settleTime // the longest
		if isShortWaiting() {
			calm /= 2
		}
		run.Sleep(t.Context(), settleTime+time.Duration(c.rand.Int64N(int64(calm))))
	}
}

// stop stops all drivers, that of the nodes last, adds their journals to the evidence, and returns what the waiting callers recorded about waits.
func (d *waitingDrill) stop(c *testCluster, seen *evidence) (waits []journal.Entry, violations []violation) {
	report := func(kind string, err error) {
		if err != nil {
			violations = append(violations, violation{kind, err.Error()})
		}
	}
	entries, err := d.load.callers.Stop(loadStopTimeout)
	report(unfinishedCall, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Kind, "wait_") {
			waits = append(waits, e)
		} else {
			seen.callers = append(seen.callers, e)
		}
	}
	seen.sessions, err = d.load.sessions.Stop(loadStopTimeout)
	report(unanswered, err)
	report(stuckInbox, c.waitInboxesEmpty())
	seen.nodes, err = d.load.nodes.Stop(nodeStopTimeout)
	report(missingNode, err)
	return waits, violations
}

// leftoverTimeout is how long after the load keys of waiting requests may exist: the count of a job of a killed instance expires after its timeout
// (docs/tenants.md).
const leftoverTimeout = 30 * time.Second

// leftovers checks that nothing is left: no requests in the queue, no jobs of tenants, no leases, and in the long form no other keys. What the queue
// knows of shares stays until it expires.
func (d *waitingDrill) leftovers(t *testing.T, c *testCluster) (violations []violation) {
	t.Helper()
	if *drillWaitingFor > 0 {
		keys, err := c.leftoverKeys(t.Context(), resumableTimeouts.retention(), false)
		c.Must(err)
		for _, key := range keys {
			violations = append(violations, violation{leftoverKey, key})
		}
		return violations
	}
	err := clustertest.EventuallyEvery(t.Context(), 250*time.Millisecond, leftoverTimeout, func() error {
		left, err := c.waitingLeftovers()
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left are %v", left)
		}
		return err
	})
	if err != nil {
		violations = append(violations, violation{leftoverKey, err.Error()})
	}
	return violations
}

// waitingLeftovers lists the keys of requests that wait, of jobs of tenants that count, and of leases.
func (c *testCluster) waitingLeftovers() (left []string, err error) {
	for _, pattern := range []string{":v1:wait:*", ":v1:tenants:*:jobs", ":v1:nodes:*:leases"} {
		keys, err := c.Redis.Keys(keyPrefix + pattern)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			members := "some members"
			if strings.Contains(k.Key, ":tenants:") { // one that has expired does not count, and is removed later; the mark never expires
				now, err := c.Redis.Clock()
				if err != nil {
					return nil, err
				}
				reply, err := k.Server.Do("ZRANGEBYSCORE", k.Key, strconv.FormatInt(now, 10), "(+inf", "WITHSCORES")
				if err != nil {
					return nil, err
				}
				if members = fmt.Sprint(reply); members == "[]" {
					continue
				}
			}
			if !isQueueState(k.Key) {
				left = append(left, k.Key+" with "+members)
			}
		}
	}
	return left, nil
}
