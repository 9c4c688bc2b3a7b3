package drill

import (
	"fmt"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

// queueKeys are the keys of the queue in which all requests of the drill wait.
var queueKeys = []string{
	keyPrefix + ":v1:wait:{pool:}:line", keyPrefix + ":v1:wait:{pool:}:turns", keyPrefix + ":v1:wait:{pool:}:timers",
	keyPrefix + ":v1:wait:{pool:}:book", keyPrefix + ":v1:wait:{pool:}:open", keyPrefix + ":v1:wait:{pool:}:held",
}

// waitingFaults returns the faults of the drill with waiting requests that the topology allows.
func (d *waitingDrill) waitingFaults() []fault {
	faults := []fault{killInstance(3 * time.Second), pauseInstance(2500 * time.Millisecond), pauseInstance(500 * time.Millisecond), deleteQueue(), deleteCounts(deletePause()), d.freezeEverything(700 * time.Millisecond)}
	if *drillTopology == clustertest.Standalone {
		return append(faults, pauseRedis(1500*time.Millisecond))
	}
	return append(faults, killQueuePrimary())
}

// pauseInstance stops an instance for a while. Its clients stay connected to it.
func pauseInstance(duration time.Duration) fault {
	return fault{name: fmt.Sprintf("pause instance for %v", duration), duration: duration, recoveryLimit: duration + 10*time.Second, inject: func(c *testCluster) (string, func()) {
		i := c.pickInstance()
		c.Must(i.Process.Stop(c.TB.Context()))
		return i.Name, func() { c.Must(i.Process.Continue()) }
	}}
}

// deleteQueue deletes the keys of the queue, each one, in random order, and then all at once.
func deleteQueue() fault {
	return fault{name: "delete queue", recoveryLimit: 10 * time.Second, inject: func(c *testCluster) (string, func()) {
		deleted := 0
		for n := range len(queueKeys) + 1 {
			keys := queueKeys
			if n < len(queueKeys) {
				keys = queueKeys[n : n+1]
			}
			server, err := c.Redis.ServerOf(queueKeys[0])
			c.Must(err)
			reply, err := server.Do(append([]string{"DEL"}, keys...)...)
			c.Must(err)
			count, _ := reply.(int64)
			deleted += int(count)
			run.Sleep(c.TB.Context(), 100*time.Millisecond+time.Duration(c.rand.Int64N(int64(800*time.Millisecond))))
		}
		return fmt.Sprintf("%d keys", deleted), func() {}
	}}
}

// deletePause is the longest pause between two deletions of counts.
func deletePause() time.Duration {
	if isShortWaiting() {
		return time.Second
	}
	return 4 * time.Second
}

// deleteCounts deletes what is counted of the tenant that has a limit, while its jobs run.
func deleteCounts(pause time.Duration) fault {
	const tenant = keyPrefix + ":v1:tenants:{tenant:" + limitedTenant + "}"
	return fault{name: "delete counts", recoveryLimit: 10 * time.Second, inject: func(c *testCluster) (string, func()) {
		server, err := c.Redis.ServerOf(tenant)
		c.Must(err)
		deleted := 0
		for range 3 {
			reply, err := server.Do("DEL", tenant+":jobs", tenant+":rates")
			c.Must(err)
			count, _ := reply.(int64)
			deleted += int(count)
			run.Sleep(c.TB.Context(), 500*time.Millisecond+time.Duration(c.rand.Int64N(int64(pause))))
		}
		return fmt.Sprintf("%d keys", deleted), func() {}
	}}
}

// freezeEverything stops all processes for a moment, as a machine without processor time does.
func (d *waitingDrill) freezeEverything(duration time.Duration) fault {
	return fault{name: "freeze everything", recoveryLimit: duration + 15*time.Second, allowedCodes: storeDownCodes, mayLoseWrites: *drillTopology != clustertest.Standalone, inject: func(c *testCluster) (string, func()) {
		var processes []*clustertest.Process
		for _, i := range c.Instances {
			processes = append(processes, i.Process)
		}
		processes = append(processes, d.load.processes()...)
		for _, p := range processes {
			c.Must(p.Stop(c.TB.Context()))
		}
		from := journal.Now()
		servers := c.Redis.All()
		for _, s := range servers {
			s.Stop()
		}
		run.Sleep(c.TB.Context(), duration)
		for _, s := range servers {
			s.Continue()
		}
		d.frozen = append(d.frozen, stall{from, journal.Now()})
		for _, p := range processes {
			c.Must(p.Continue())
		}
		return fmt.Sprintf("%d processes", len(processes)+len(servers)), func() { c.Redis.WaitHealthy(30 * time.Second) }
	}}
}

// killQueuePrimary kills the primary that has the queue, which comes back as a replica.
func killQueuePrimary() fault {
	const failover = 30 * time.Second
	return fault{name: "kill primary of the queue", recoveryLimit: failover, allowedCodes: storeDownCodes, mayLoseWrites: true, inject: func(c *testCluster) (string, func()) {
		server, err := c.Redis.ServerOf(queueKeys[0])
		c.Must(err)
		c.Redis.KillPrimary(slices.Index(c.Redis.Primaries(), server))
		return server.Addr(), func() {
			c.Redis.WaitHealthy(failover)
			server.Restart()
			c.Redis.WaitHealthy(failover)
		}
	}}
}
