package drill

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

// fault is a fault that can be injected into a cluster.
type fault struct {
	name          string
	duration      time.Duration // until it is undone
	recoveryLimit time.Duration // an utterance that it overlaps has its terminal message so long after the injection, or after the utterance
	allowedCodes  []string      // errors that it may cause
	mayLoseWrites bool          // the store may lose its last writes, see docs/redis.md

	inject func(c *testCluster) (target string, undo func())
}

// injection is one injection of a fault.
type injection struct {
	fault
	target              string
	from, to            int64         // see journal.Now
	inboxesDrainedAfter time.Duration // after the undo, until all earlier messages were acknowledged
	inboxesErr          error
	nodesBackAfter      time.Duration // after the undo, until all nodes were connected
	nodesErr            error
}

// String returns the fault, its target and its duration.
func (s *injection) String() string {
	return fmt.Sprintf("%s (%s, %v)", s.name, s.target, time.Duration(s.to-s.from).Round(10*time.Millisecond))
}

// inboxDrainTimeout is how long after a fault an earlier message may stay in an inbox.
const inboxDrainTimeout = 60 * time.Second

// reconnectTimeout is how long after a fault all nodes must be connected.
const reconnectTimeout = 20 * time.Second

// injectFault injects a fault, undoes it, and waits until the cluster has recovered.
func (c *testCluster) injectFault(f fault) *injection {
	c.TB.Helper()
	s := &injection{fault: f, from: journal.Now()}
	if len(c.Instances) == 1 {
		s.recoveryLimit += f.duration // no other instance can help
	}
	var undo func()
	s.target, undo = f.inject(c)
	run.Sleep(c.TB.Context(), f.duration-time.Duration(journal.Now()-s.from))
	undo()
	s.to = journal.Now()
	s.inboxesErr = c.waitInboxesDrained()
	s.inboxesDrainedAfter = time.Duration(journal.Now() - s.to)
	s.nodesErr = c.waitAllNodes()
	s.nodesBackAfter = time.Duration(journal.Now() - s.to)
	return s
}

// waitAllNodes waits until all nodes are connected.
func (c *testCluster) waitAllNodes() error {
	return clustertest.Eventually(c.TB.Context(), reconnectTimeout, func() error {
		connected := 0.0
		for _, i := range c.Instances {
			gauges, err := i.Metrics(c.TB.Context())
			if err != nil {
				return err
			}
			connected += gauges["lingua_connected_nodes"]
		}
		if int(connected) < c.nodeCount {
			return fmt.Errorf("%.0f of %d nodes are connected", connected, c.nodeCount)
		}
		return nil
	})
}

// waitInboxesDrained waits until all messages that are in an inbox now are acknowledged. Later messages do not count: there
// is load.
func (c *testCluster) waitInboxesDrained() error {
	var since int64
	return clustertest.Eventually(c.TB.Context(), inboxDrainTimeout, func() (err error) {
		if since == 0 {
			if since, err = c.Redis.Clock(); err != nil {
				return err
			}
		}
		b, err := c.Redis.Backlog()
		if err == nil && b.OldestMS != 0 && b.OldestMS <= since {
			err = fmt.Errorf("%d messages are pending and %d undelivered, the oldest in %s", b.Pending, b.Undelivered, b.OldestIn)
		}
		return err
	})
}

// killName is the name of the fault of killInstance.
const killName = "kill instance"

// killInstance kills an instance with SIGKILL and restarts it later.
func killInstance(duration time.Duration) fault {
	return fault{name: killName, duration: duration, recoveryLimit: 10 * time.Second, inject: func(c *testCluster) (string, func()) {
		i := c.pickInstance()
		i.Kill()
		return i.Name, func() { c.Must(i.Start(c.TB.Context())) }
	}}
}

// stopInstanceFault stops an instance for twice its presence, and continues it. The balancers take it out of rotation
// meanwhile, and half of its connections are cut.
func stopInstanceFault() fault {
	const duration = 2 * instancePresence
	return fault{name: "stop instance", duration: duration, recoveryLimit: duration + 10*time.Second, inject: func(c *testCluster) (string, func()) {
		i := c.busiestInstance()
		moved := c.stopInstance(i)
		return fmt.Sprintf("%s, %d connections moved", i.Name, moved), func() { c.Must(i.Process.Continue()) }
	}}
}

// stopInstance stops an instance, waits until the balancers take it out of rotation, and cuts every second connection to
// it.
func (c *testCluster) stopInstance(i *clustertest.Instance) (moved int) {
	c.Must(i.Process.Stop(c.TB.Context()))
	for _, b := range []*clustertest.Balancer{c.NodeBalancer, c.ClientBalancer} {
		c.Must(clustertest.Eventually(c.TB.Context(), 10*time.Second, func() error {
			if b.Healthy(i) {
				return errors.New("the balancer still sends connections to " + i.Name)
			}
			return nil
		}))
		n := 0
		moved += b.Cut(func(p *clustertest.BalancedConn) bool {
			if p.Instance() != i {
				return false
			}
			n++
			return n%2 == 0
		})
	}
	return moved
}

// delayWrites stops an instance while its last commands are on their way to Redis. They arrive after other instances have
// taken over, and before the instance continues, so that only the store can refuse them.
func delayWrites() fault {
	f := stopInstanceFault()
	f.allowedCodes = storeDownCodes // an utterance of a session that stays connected may have waited until its deadline
	f.name, f.inject = "delay writes", func(c *testCluster) (string, func()) {
		i := c.busiestInstance()
		proxy := c.Redis.Proxies[c.IndexOf(i)]
		proxy.Freeze(true)
		run.Sleep(c.TB.Context(), 800*time.Millisecond) // the load continues
		moved := c.stopInstance(i)
		return fmt.Sprintf("%s, %d connections moved", i.Name, moved), func() {
			proxy.Freeze(false)
			run.Sleep(c.TB.Context(), 100*time.Millisecond)
			c.Must(i.Process.Continue())
		}
	}
	return f
}

// storeDownCodes are the errors that an unavailable store may cause. The last two are among them because nodes whose heartbeats
// cannot be written get no jobs until the next heartbeat: a request finds no slot, or so few that its wait would end before its turn.
var storeDownCodes = []string{"SCHEDULER_DEPENDENCY_DOWN", "DEADLINE_EXCEEDED", "ALL_CANDIDATES_FULL_OR_FAILED", "CANNOT_BE_MET"}

// disconnectRedis separates an instance from Redis: its connections are closed and refused, or frozen.
func disconnectRedis(duration time.Duration, frozen bool) fault {
	name := "refuse Redis connections"
	if frozen {
		name = "freeze Redis connections"
	}
	return fault{name: name, duration: duration, recoveryLimit: duration + 15*time.Second, allowedCodes: storeDownCodes, inject: func(c *testCluster) (string, func()) {
		i := c.pickInstance()
		proxy := c.Redis.Proxies[c.IndexOf(i)]
		if frozen {
			proxy.Freeze(true)
			return i.Name, func() { proxy.Freeze(false) }
		}
		proxy.Refuse(true)
		return i.Name, func() { proxy.Refuse(false) }
	}}
}

// killRedisPrimary kills a primary of Redis, which comes back as a replica.
func killRedisPrimary() fault {
	const failover = 30 * time.Second
	return fault{name: "kill Redis primary", recoveryLimit: failover, allowedCodes: storeDownCodes, mayLoseWrites: true, inject: func(c *testCluster) (string, func()) {
		server := c.Redis.KillPrimary(c.rand.IntN(3))
		return server.Addr(), func() {
			c.Redis.WaitHealthy(failover)
			server.Restart()
			c.Redis.WaitHealthy(failover)
		}
	}}
}

// failOverRedis makes a replica of Redis primary while the primary runs, as an operator does before maintenance. In a cluster no write is
// lost by it; sentinels let the old primary accept writes that the new one does not have.
func failOverRedis(topology string) fault {
	const failover = 30 * time.Second
	f := fault{name: "fail Redis over", duration: 2 * time.Second, recoveryLimit: 10 * time.Second}
	f.inject = func(c *testCluster) (string, func()) {
		c.Redis.FailOver(c.rand.IntN(3))
		return topology, func() { c.Redis.WaitHealthy(failover) }
	}
	if topology == clustertest.Sentinel {
		f.duration = 4 * time.Second                            // in which the old primary remains one
		f.mayLoseWrites, f.recoveryLimit = true, 15*time.Second // a job whose outcome is lost is done again after its attempt timeout
	}
	return f
}

// pauseRedis stops a Redis server for a while. A replica may take over meanwhile, and then the writes to the stopped server
// are lost.
func pauseRedis(duration time.Duration) fault {
	return fault{name: "pause Redis", duration: duration, recoveryLimit: duration + 25*time.Second, allowedCodes: storeDownCodes, mayLoseWrites: *drillTopology != clustertest.Standalone, inject: func(c *testCluster) (string, func()) {
		all := c.Redis.Primaries()
		server := all[c.rand.IntN(len(all))]
		server.Stop()
		return server.Addr(), func() {
			server.Continue()
			c.Redis.WaitHealthy(30 * time.Second)
		}
	}}
}

// cutConnections cuts connections of nodes and sessions, one after the other.
func cutConnections(duration time.Duration) fault {
	return fault{name: "cut connections", recoveryLimit: 10 * time.Second, inject: func(c *testCluster) (string, func()) {
		var nodes, sessions int
		for end := time.Now().Add(duration); time.Now().Before(end) && run.SleepJitter(c.TB.Context(), 150*time.Millisecond, 0.9); {
			some := func(left int) func(*clustertest.BalancedConn) bool { // the order of a map is random
				return func(*clustertest.BalancedConn) bool { left--; return left >= 0 }
			}
			sessions += c.ClientBalancer.Cut(some(1 + c.rand.IntN(3)))
			if c.rand.IntN(6) == 0 {
				nodes += c.NodeBalancer.Cut(some(1))
			}
		}
		return fmt.Sprintf("%d of nodes, %d of sessions and callers", nodes, sessions), func() {}
	}}
}

// restartAllInstances restarts the instances one after the other, each with SIGTERM. An utterance may meet each of the
// three restarts, and has the time for each.
func restartAllInstances() fault {
	return fault{name: "restart all instances", recoveryLimit: 3 * 10 * time.Second, inject: func(c *testCluster) (string, func()) {
		for _, i := range c.Instances {
			c.Must(i.Terminate(20 * time.Second))
			c.Must(i.Start(c.TB.Context()))
			c.Must(clustertest.Eventually(c.TB.Context(), 10*time.Second, func() error {
				if !c.NodeBalancer.Healthy(i) || !c.ClientBalancer.Healthy(i) {
					return errors.New("the balancer does not send connections to " + i.Name)
				}
				return nil
			}))
		}
		return fmt.Sprintf("%d instances", len(c.Instances)), func() {}
	}}
}

// killNodes kills some of the nodes with all their jobs, and starts them again without.
func killNodes(duration time.Duration) fault {
	return fault{name: "kill nodes", duration: duration, recoveryLimit: 15 * time.Second, inject: func(c *testCluster) (string, func()) {
		c.killableNodes.Kill()
		return fmt.Sprintf("%d nodes", c.killableNodes.Config.Count), func() { c.Must(c.killableNodes.Start(c.Cluster)) }
	}}
}

// freezeNodes stops some of the nodes with all their jobs, while their connections stay open, and lets them go on with what they had.
func freezeNodes(duration time.Duration) fault {
	return fault{name: "freeze nodes", duration: duration, recoveryLimit: duration + 15*time.Second, inject: func(c *testCluster) (string, func()) {
		p := c.killableNodes.Process()
		c.Must(p.Stop(c.TB.Context()))
		return fmt.Sprintf("%d nodes", c.killableNodes.Config.Count), func() { c.Must(p.Continue()) }
	}}
}

// combine injects two faults, the second while the first is in effect.
func combine(a, b fault) fault {
	return fault{
		name: a.name + " and " + b.name, duration: max(a.duration, b.duration), recoveryLimit: a.recoveryLimit + b.recoveryLimit,
		allowedCodes: append(slices.Clone(a.allowedCodes), b.allowedCodes...), mayLoseWrites: a.mayLoseWrites || b.mayLoseWrites,
		inject: func(c *testCluster) (string, func()) {
			first, undoFirst := a.inject(c)
			second, undoSecond := b.inject(c)
			return first + " and " + second, func() {
				undoFirst()
				undoSecond()
			}
		},
	}
}

// pickInstance chooses the instance for a fault.
func (c *testCluster) pickInstance() *clustertest.Instance {
	first := 0
	if c.sparesFirst && len(c.Instances) > 1 {
		first = 1
	}
	return c.Instances[first+c.rand.IntN(len(c.Instances)-first)]
}

// busiestInstance returns, of the instances that a fault may hit, the one with the most sessions, because its late writes
// matter most.
func (c *testCluster) busiestInstance() *clustertest.Instance {
	busiest := c.pickInstance()
	for _, i := range c.Instances {
		if (i != c.Instances[0] || !c.sparesFirst) && c.ClientBalancer.ConnCount(i) > c.ClientBalancer.ConnCount(busiest) {
			busiest = i
		}
	}
	return busiest
}

// overlapping returns the injections whose effect, including the recovery limit, overlaps with an interval.
func overlapping(all []*injection, from, to int64) []*injection {
	return slices.DeleteFunc(slices.Clone(all), func(s *injection) bool { return to < s.from || from > s.to+int64(s.recoveryLimit) })
}
