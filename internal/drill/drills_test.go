package drill

import (
	"testing"
	"time"
)

// TestKilled kills an instance with kill -9 while everybody speaks, and starts it again. Nobody has cleared away for it, so
// this is where it is looked at what remains.
func TestKilled(t *testing.T) {
	drill{kept: briefly, faults: []fault{killed(4 * time.Second)}, keys: true}.run(t)
}

// TestStopped halts an instance for three times its presence.
func TestStopped(t *testing.T) { drill{kept: usually, faults: []fault{stopped(presenceTTL)}}.run(t) }

// TestDelayed does so while its last words are on their way to Redis. Only what the store itself knows can refuse them.
func TestDelayed(t *testing.T) {
	if *drillTopology != "standalone" {
		t.Skip("clients of " + *drillTopology + " are told addresses by Redis itself, so there is no link to hold back")
	}
	drill{kept: usually, faults: []fault{delayed(presenceTTL)}, late: true}.run(t)
}

// TestBereaved kills nodes in the middle of their work, and with them an instance: whoever would have moved their jobs on is
// gone as well.
func TestBereaved(t *testing.T) {
	drill{kept: shipped, faults: []fault{died(4 * time.Second), both(died(4*time.Second), killed(4*time.Second))}}.run(t)
}

// TestRolled restarts all instances in turn: nothing is lost and nothing fails.
func TestRolled(t *testing.T) { drill{kept: shipped, faults: []fault{rolled()}}.run(t) }

// TestCut cuts connections of nodes and of sessions.
func TestCut(t *testing.T) { drill{kept: shipped, faults: []fault{cut(5 * time.Second)}}.run(t) }

// TestRedisAway lets Redis be away: paused, and where there is somebody to take over, killed; or else, from one instance.
func TestRedisAway(t *testing.T) { drill{kept: usually, faults: redisFaults()}.run(t) }

// TestSoak does all of it in any order, and watches whether anything grows. In full:
//
//	go test -count=1 -v -timeout 2h -run TestSoak ./internal/drill -drill-for 1h
func TestSoak(t *testing.T) {
	faults := append(redisFaults(), killed(4*time.Second), stopped(presenceTTL), cut(3*time.Second), died(4*time.Second),
		both(died(4*time.Second), killed(4*time.Second)), both(cut(3*time.Second), killed(4*time.Second)))
	if *drillFor == 0 {
		faults = []fault{cut(2 * time.Second), killed(2 * time.Second)} // each of the others has a test of its own
	}
	drill{kept: usually, faults: faults, watch: true}.run(t)
}

// redisFaults are those that the topology allows.
func redisFaults() []fault {
	if *drillTopology != "standalone" {
		return []fault{deposed(), paused(4 * time.Second)}
	}
	return []fault{paused(1500 * time.Millisecond), unlinked(4*time.Second, false), unlinked(4*time.Second, true)}
}
