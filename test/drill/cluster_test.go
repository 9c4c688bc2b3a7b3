package drill

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest"
)

// buildDir is a directory for binaries. TestMain creates and removes it.
var buildDir string

// build builds the scheduler with flags, and returns its path. Short tests do not run it.
func build(t *testing.T, name string, flags ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it runs processes of the scheduler")
	}
	binary, err := clustertest.Build(buildDir, name, flags...)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// building lets one test build the scheduler, and built is its path.
var (
	building sync.Mutex
	built    string
)

// buildOnce builds the scheduler, once for all drills.
func buildOnce(t *testing.T) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	if built == "" {
		built = build(t, "lingua")
	}
	return built
}

// tone is 100 ms of audio.
var tone = clustertest.Tone(clustertest.SampleRate)

// timeouts are how long the scheduler keeps things, in seconds. The defaults are long; most drills shorten them, so that
// leftovers show soon.
type timeouts struct{ resume, idle, job, attempt, ack, wait int }

// With resumableTimeouts a session can be resumed after the longest fault, with shortTimeouts it cannot. In both, an attempt has
// more time than anything may take after an instance was lost: a job that is not taken over is late, and not rescued by the
// end of its attempt. On a busy machine an ACK may take longer than the default of 2 s, and then a job may lose all its attempts.
var (
	defaultTimeouts   timeouts
	resumableTimeouts = timeouts{resume: 15, idle: 20, job: 16, attempt: 13, ack: 4, wait: 10}
	failoverTimeouts  = timeouts{resume: 15, idle: 20, job: 16, attempt: 6, ack: 2, wait: 10} // a lost job is done again soon
	shortTimeouts     = timeouts{resume: 10, idle: 10, job: 16, attempt: 13, ack: 4, wait: 10}
)

const (
	// recordRetention is how long the record of an ended job is kept.
	recordRetention = 10 * time.Second
	// minRecordRetention is how long after a caller saw the end of its job the record certainly exists. It is shorter than
	// recordRetention because a caller sees the end some time after it happened.
	minRecordRetention = recordRetention / 2
	// instancePresence is how long a silent instance counts as alive.
	instancePresence = 3 * time.Second
)

// retention is how long after the end of the load anything may be kept: a session that can still be resumed, and the time
// that the clean-up needs.
func (t timeouts) retention() time.Duration {
	return time.Duration(t.resume+t.wait+t.job+t.idle)*time.Second + 5*time.Second
}

// commonSettings sets limits that the load alone does not reach.
const commonSettings = `
[server]
shutdown_seconds = 8
per_address = 0

[scheduler.sessions]
open_utterances = 200
per_address = 0
`

// settings returns the configuration of every instance. The presence of instances is always the default.
func (t timeouts) settings() []byte {
	if t == defaultTimeouts {
		// After an instance was killed, nodes connect to others: on a slow machine that takes as long as an utterance waits by default.
		return []byte(commonSettings + "wait_ms = 20000\n")
	}
	return fmt.Appendf([]byte(commonSettings), `resume_seconds = %d
idle_seconds = %d
wait_ms = %d

[scheduler.nodes]
heartbeat_interval_ms = 1000
presence_ttl_ms = 10000
retention_seconds = 10

[scheduler.task_binding]
lease_seconds = %d

[scheduler.dispatch]
heartbeat_stale_ms = 10000
ack_timeout_ms = %d
attempt_timeout_ms = %d
job_timeout_ms = %d
`, t.resume, t.idle, 1000*t.wait, int(recordRetention.Seconds()), 1000*t.ack, 1000*t.attempt, 1000*t.job)
}

// testCluster is the cluster of a drill, with the state of the drill itself.
type testCluster struct {
	*clustertest.Cluster
	rand          *rand.Rand
	nodeCount     int                    // socket nodes that should be connected
	killableNodes *clustertest.NodeGroup // those of them that some faults kill
	sparesFirst   bool                   // no fault hits the first of several instances, so that its growth can be measured
	malformed     int                    // malformed messages that were sent
}

// startTestCluster starts a cluster with a topology of Redis, and otherwise as the flags describe it.
func startTestCluster(tb testing.TB, binary, topology string, r *rand.Rand, settings []byte) *testCluster {
	tb.Helper()
	return &testCluster{rand: r, Cluster: clustertest.Start(tb, clustertest.Config{
		Binary: binary, Topology: topology, Instances: *drillInstances, Settings: settings,
	})}
}

// nodeGroups divides the nodes into those that run all the time and those that some faults kill.
func nodeGroups(nodes int, cfg clustertest.DriverConfig) (stable, killable *clustertest.NodeGroup) {
	few := max(1, nodes/4)
	group := func(name string, count int) *clustertest.NodeGroup {
		g := &clustertest.NodeGroup{Config: cfg}
		g.Config.Name, g.Config.Count = name, count
		return g
	}
	return group("node", nodes-few), group("killable", few)
}

// auditResult returns the violations and the summary of the script auditor. The test fails if the auditor proves nothing.
func (c *testCluster) auditResult() ([]clustertest.ScriptViolation, string) {
	violations, summary, errs := c.Auditor.Report()
	c.Must(errors.Join(errs...))
	if scripts, _ := c.Auditor.Counts(); scripts == 0 {
		c.TB.Errorf("the drill proves nothing: Redis ran %s", summary)
	}
	return violations, summary
}
