package drill

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/child"
)

// terms are how long things are kept, in seconds. They are long as shipped, and short here, so that what nobody clears
// away is soon seen to remain.
type terms struct{ resume, idle, job, attempt, wait int }

// usually a session may be silent for longer than the longest fault, and can be resumed after it. In brief it cannot. In both,
// an attempt has more time than anything may take after an instance was lost: a job that nobody takes over is late then, and
// not saved by the end of its attempt. And some drills are done with everything as it is shipped.
var (
	shipped terms
	usually = terms{resume: 15, idle: 20, job: 16, attempt: 13, wait: 10}
	briefly = terms{resume: 10, idle: 10, job: 16, attempt: 13, wait: 10}
)

// recordKept is how long the record of an ended job is kept.
const recordKept = 10 * time.Second

// keptFor is how long after the last word anything may be kept: a session that can still be resumed, and the time that
// those need who clear away.
func (t terms) keptFor() time.Duration {
	return time.Duration(t.resume+t.wait+t.job+t.idle)*time.Second + 5*time.Second
}

// bounds are such that load alone does not reach them.
const bounds = `
[server]
shutdown_seconds = 8
per_address = 0

[scheduler.sessions]
open_utterances = 200
per_address = 0
`

// settings are those of every instance. Presence of instances is always as shipped; of the rest, what is kept for long is
// kept for ten seconds.
func (t terms) settings() []byte {
	if t == shipped {
		return []byte(bounds)
	}
	return fmt.Appendf([]byte(bounds), `resume_seconds = %d
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
attempt_timeout_ms = %d
job_timeout_ms = %d
`, t.resume, t.idle, 1000*t.wait, int(recordKept.Seconds()), 1000*t.attempt, 1000*t.job)
}

// presenceTTL is how long an instance that says nothing is believed to be there.
const presenceTTL = 3 * time.Second

// cluster is everything but the load.
type cluster struct {
	tb        testing.TB
	dir       string
	redis     *topology
	instances []*instance
	nodes     *balancer // where nodes connect
	people    *balancer // where sessions do
	dice      *rand.Rand
	nodeCount int   // that are to be there
	mortals   *crew // those of them that die in some drills
	watched   bool  // whether anything grows
	witness   *witness
	marks     int // of the poison there is
}

// muster starts a cluster, which ends with the test.
func muster(tb testing.TB, binary string, dice *rand.Rand, kept terms) *cluster {
	tb.Helper()
	return musterWith(tb, binary, dice, kept.settings())
}

// musterWith does so with settings of its own.
func musterWith(tb testing.TB, binary string, dice *rand.Rand, settings []byte) *cluster {
	tb.Helper()
	count := *drillInstances
	c := &cluster{tb: tb, dir: tb.ArtifactDir(), redis: startTopology(tb, *drillTopology, count), dice: dice}
	config := filepath.Join(c.dir, "lingua.toml")
	if err := os.WriteFile(config, settings, 0o600); err != nil {
		tb.Fatal(err)
	}
	c.witness = startWitness(tb, c.redis)
	transport := &http.Transport{DisableKeepAlives: true}
	for n := range count {
		i := &instance{
			name: fmt.Sprintf("i-%d", n), port: child.Port(tb), binary: binary, config: config,
			asks: &http.Client{Transport: transport, Timeout: time.Second},
		}
		i.log = filepath.Join(c.dir, i.name+".log")
		i.env = []string{"LINGUA_STORE=" + c.redis.url(n), fmt.Sprintf("LINGUA_SERVER_PORT=%d", i.port), "LINGUA_SCHEDULER_PHASE2_REDIS_KEY_PREFIX=" + prefix, instanceID + "=" + i.name}
		tb.Cleanup(func() {
			if i.proc != nil {
				i.proc.End()
			}
			if tb.Failed() {
				tb.Logf("the end of the log of instance %s:\n%s", i.name, tail(i.log, 25))
			}
		})
		if err := i.start(tb.Context()); err != nil {
			tb.Fatal(err)
		}
		c.instances = append(c.instances, i)
	}
	c.nodes, c.people = startBalancer(tb, c.instances), startBalancer(tb, c.instances)
	return c
}

// need fails the drill for a reason that is not a broken promise: it cannot go on.
func (c *cluster) need(err error) {
	c.tb.Helper()
	if err != nil {
		c.tb.Fatal(err)
	}
}

// heard is what the witness has to say.
func (c *cluster) heard(d drill) ([]effect, string) {
	effects, summary, failures := c.witness.report()
	c.need(errors.Join(failures...))
	if scripts, late := c.witness.counts(); scripts == 0 || d.late && late == 0 {
		c.tb.Errorf("that proves nothing: %s", summary)
	}
	return effects, summary
}

// index is the number of an instance.
func (c *cluster) index(of *instance) int {
	for n, i := range c.instances {
		if i == of {
			return n
		}
	}
	return -1
}
