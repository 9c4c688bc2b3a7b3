package drill

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/clustertest"
)

// TestInstanceKilled kills an instance under load and restarts it. The dead instance cleans nothing up, so this drill also
// checks that no keys remain.
func TestInstanceKilled(t *testing.T) {
	drill{timeouts: shortTimeouts, faults: []fault{killInstance(4 * time.Second)}, checkKeys: true, wantEvent: "takeover"}.run(t)
}

// TestInstanceStopped stops an instance for three times its presence.
func TestInstanceStopped(t *testing.T) {
	drill{timeouts: resumableTimeouts, faults: []fault{stopInstanceFault(instancePresence)}}.run(t)
}

// TestLateWritesAreRefused stops an instance while its last commands are on their way to Redis. Only the store can
// refuse them.
func TestLateWritesAreRefused(t *testing.T) {
	if *drillTopology != clustertest.Standalone {
		t.Skip("in the topology " + *drillTopology + " clients connect to the servers themselves, so no proxy can delay commands")
	}
	drill{timeouts: resumableTimeouts, faults: []fault{delayWrites(instancePresence)}, needsLateWrites: true}.run(t)
}

// TestNodesKilledWithInstance kills nodes with their jobs, and with them an instance that would have moved these jobs.
func TestNodesKilledWithInstance(t *testing.T) {
	drill{timeouts: defaultTimeouts, faults: []fault{killNodes(4 * time.Second), combine(killNodes(4*time.Second), killInstance(4*time.Second))}}.run(t)
}

// TestRollingRestart restarts all instances one after the other: nothing is lost and nothing fails.
func TestRollingRestart(t *testing.T) {
	drill{timeouts: defaultTimeouts, faults: []fault{restartAllInstances()}}.run(t)
}

// TestConnectionsCut cuts connections of nodes and of sessions.
func TestConnectionsCut(t *testing.T) {
	drill{timeouts: defaultTimeouts, faults: []fault{cutConnections(5 * time.Second)}}.run(t)
}

// TestRedisOutage stops Redis, and kills a primary where a replica can take over or else separates one instance from Redis.
func TestRedisOutage(t *testing.T) {
	drill{timeouts: resumableTimeouts, faults: redisFaults(), wantEvent: "store_up"}.run(t)
}

// TestSoak injects all faults in random order, and checks that no resource grows. In full:
//
//	go test -count=1 -v -timeout 2h -run TestSoak ./internal/drill -drill-for 1h
func TestSoak(t *testing.T) {
	faults := append(redisFaults(), killInstance(4*time.Second), stopInstanceFault(instancePresence), cutConnections(3*time.Second), killNodes(4*time.Second),
		combine(killNodes(4*time.Second), killInstance(4*time.Second)), combine(cutConnections(3*time.Second), killInstance(4*time.Second)))
	if *drillFor == 0 {
		faults = []fault{cutConnections(2 * time.Second), killInstance(2 * time.Second)} // each of the others has its own test
	}
	drill{timeouts: resumableTimeouts, faults: faults, watchGrowth: true}.run(t)
}

// redisFaults returns the faults of Redis that the topology allows.
func redisFaults() []fault {
	if *drillTopology != clustertest.Standalone {
		return []fault{killRedisPrimary(), pauseRedis(4 * time.Second)}
	}
	return []fault{pauseRedis(1500 * time.Millisecond), disconnectRedis(4*time.Second, false), disconnectRedis(4*time.Second, true)}
}
