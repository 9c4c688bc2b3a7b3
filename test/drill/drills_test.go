package drill

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest"
)

// downFor is for how long instances are away that were killed: longer than the presence of an instance, so that others take over.
const downFor = 4 * time.Second

// TestInstanceKilled cuts connections of nodes and of sessions, and then kills an instance under load and restarts it. The dead
// instance cleans nothing up, so this drill also checks that no keys remain.
func TestInstanceKilled(t *testing.T) {
	drill{
		timeouts: shortTimeouts, faults: []fault{cutConnections(2 * time.Second), killInstance(downFor)},
		checkKeys: true, watchGrowth: true, wantEvent: "takeover",
	}.run(t)
}

// TestInstanceStopped stops an instance for longer than its presence. Where clients of Redis can be delayed it stops one a second time,
// while its last commands are on their way: they arrive late, and only the store can refuse them. Whether any did is in the log, and
// TestMutantsAreDetected shows that the drill notices if they take effect.
func TestInstanceStopped(t *testing.T) {
	faults := []fault{stopInstanceFault()}
	if *drillTopology == clustertest.Standalone { // in the others clients connect to the servers themselves, and not through a proxy
		faults = append(faults, delayWrites())
	}
	drill{timeouts: resumableTimeouts, faults: faults}.run(t)
}

// TestNodesKilledWithInstance kills nodes with their jobs, stops nodes, whose jobs move and whose results come late, and kills nodes and with them
// an instance that would have moved these jobs.
func TestNodesKilledWithInstance(t *testing.T) {
	drill{timeouts: defaultTimeouts, faults: []fault{killNodes(2 * time.Second), freezeNodes(downFor), combine(killNodes(downFor), killInstance(downFor))}}.run(t)
}

// TestRollingRestart restarts all instances one after the other: nothing is lost and nothing fails.
func TestRollingRestart(t *testing.T) {
	drill{timeouts: defaultTimeouts, faults: []fault{restartAllInstances()}}.run(t)
}

// TestRedisOutage stops Redis, and kills a primary where a replica can take over or else separates one instance from Redis.
func TestRedisOutage(t *testing.T) {
	drill{timeouts: resumableTimeouts, faults: redisFaults(), wantEvent: "store_up"}.run(t)
}

// TestPlannedFailover fails Redis over three times under load, as an operator does before maintenance: each utterance has a result, and no
// node is ejected. The store is away for about a second in each failover. Utterances wait for it, and HTTP requests that are refused
// meanwhile are repeated. For longer, with more failovers:
//
//	go test -count=1 -v -timeout 1h -run TestPlannedFailover ./test/drill -drill-for 10m
func TestPlannedFailover(t *testing.T) {
	for _, topology := range []string{clustertest.Sentinel, clustertest.RedisCluster} {
		t.Run(topology, func(t *testing.T) {
			failover := failOverRedis(topology)
			drill{timeouts: failoverTimeouts, topology: topology, faults: []fault{failover, failover, failover}, noBlame: true}.run(t)
		})
	}
}

// TestSoak injects all faults in random order, and checks that no resource grows, for as long as -drill-for says. Each fault has a drill
// of its own, which needs no flag. In full:
//
//	go test -count=1 -v -timeout 2h -run TestSoak ./test/drill -drill-for 1h
func TestSoak(t *testing.T) {
	if *drillFor == 0 {
		t.Skip("it runs with -drill-for")
	}
	drill{timeouts: resumableTimeouts, watchGrowth: true, faults: append(redisFaults(),
		killInstance(downFor), stopInstanceFault(), cutConnections(3*time.Second), killNodes(downFor), freezeNodes(downFor),
		combine(killNodes(downFor), killInstance(downFor)), combine(cutConnections(3*time.Second), killInstance(downFor)),
	)}.run(t)
}

// redisFaults returns the faults of Redis that the topology allows.
func redisFaults() []fault {
	if *drillTopology != clustertest.Standalone {
		return []fault{killRedisPrimary(), pauseRedis(4 * time.Second)}
	}
	return []fault{pauseRedis(1500 * time.Millisecond), disconnectRedis(3*time.Second, false), disconnectRedis(3*time.Second, true)}
}
