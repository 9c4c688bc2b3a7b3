package drill

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/stalltest"
	"github.com/lingua-scheduler/lingua/wire"
)

var killedNodes = flag.Int("drill-killed-nodes", 6, "how many nodes TestNodeIsKilled kills")

// killLimit is within which time a job of a killed node must be with another one, which is before the grace period is over.
const killLimit = 4 * time.Second

// TestNodeIsKilled kills node processes that have a job in hand, while other nodes are free. Each job is done by another node, and the time until
// that has it is measured: for jobs that run on the instance to which the node was connected, and on another one. In full:
//
//	go test -count=1 -v -run TestNodeIsKilled -timeout 20m ./test/drill -drill-killed-nodes 400
func TestNodeIsKilled(t *testing.T) {
	t.Parallel()
	ctx, d := startKillDrill(t, commonSettings)
	c := d.testCluster
	stalls, stopStalls := stalltest.Start()
	defer stopStalls()
	var delivered, ended [2][]time.Duration // of jobs of the instance of the node, and of others
	for n := range *killedNodes {
		at, elsewhere := c.Instances[n%len(c.Instances)], n/len(c.Instances)%2
		next, done := d.kill(ctx, fmt.Sprint("killed-", n), at, c.Instances[(n+elsewhere)%len(c.Instances)])
		delivered[elsewhere], ended[elsewhere] = append(delivered[elsewhere], next), append(ended[elsewhere], done)
	}
	for i, where := range []string{"of the node's instance", "of another instance"} {
		if len(delivered[i]) == 0 {
			continue
		}
		t.Logf("jobs %s: with another node after %s; done after %s, of which %v is work", where, quantiles(delivered[i]), quantiles(ended[i]), killWork)
		if highest := slices.Max(delivered[i]); highest > killLimit+stalls.Total() {
			t.Errorf("jobs %s: it took %v until another node had one; the machine was stalled for %v", where, highest, stalls.Total())
		}
	}
	d.wantNoViolations()
}

// startKillDrill starts instances, and a node on each that is always free. They end with the test.
func startKillDrill(t *testing.T, settings string) (context.Context, *killDrill) {
	t.Helper()
	binary := buildOnce(t)
	c := startTestCluster(t, binary, *drillTopology, rand.New(rand.NewPCG(1, 0)), []byte(settings))
	d := &killDrill{testCluster: c, binary: binary}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	for n, at := range c.Instances {
		fleet.StartNodes(t, d.work, node.Config{ID: fmt.Sprint("free-", n), URL: at.URL(), Slots: 2})
	}
	return ctx, d
}

// wantNoViolations checks what the auditor of the scripts has seen.
func (d *killDrill) wantNoViolations() {
	d.TB.Helper()
	if violations, _ := d.auditResult(); len(violations) > 0 {
		d.TB.Errorf("violations: %v", violations)
	}
}

// killWork is how long the other nodes work.
const killWork = 50 * time.Millisecond

// quantiles prints the median, the 99th percentile and the maximum.
func quantiles(times []time.Duration) string {
	slices.Sort(times)
	at := func(q float64) time.Duration {
		return times[min(int(q*float64(len(times))), len(times)-1)].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, max %v (n = %d)", at(0.5), at(0.99), at(1), len(times))
}

// killDrill has what the nodes of the drill share.
type killDrill struct {
	*testCluster
	binary   string
	received sync.Map // when a job came to a node that is not killed
}

func (d *killDrill) work(ctx context.Context, job *node.Job) (node.Result, error) {
	d.received.Store(job.ID, time.Now())
	run.Sleep(ctx, killWork)
	return node.Result{TextTgt: "hola"}, ctx.Err()
}

// kill starts a node that is connected to an instance, gives it a job through an instance, kills it, and returns after what time another node
// had the job, and after what time it was done.
func (d *killDrill) kill(ctx context.Context, id string, at, through *clustertest.Instance) (delivered, ended time.Duration) {
	victim := d.startVictim(ctx, d.nodeCommand(at.URL(), id), id, through)
	defer victim.process.KillAndWait()
	return d.measure(ctx, victim, func() { d.Must(victim.process.Signal(syscall.SIGKILL)) })
}

// victim is a node process that has a job in hand.
type victim struct {
	process *clustertest.Process
	job     string
	through *clustertest.Instance // which runs the job
}

// nodeCommand is the command of a node that would need ten minutes for a job.
func (d *killDrill) nodeCommand(url, id string) []string {
	return []string{d.binary, "node", "--sim", "--url", url, "--id", id, "--slots", "1", "--latency", "10m", "--langs", "en,es", "--log-level", "error"}
}

// startVictim starts a node and gives it a job through an instance.
func (d *killDrill) startVictim(ctx context.Context, command []string, id string, through *clustertest.Instance) *victim {
	process, err := clustertest.StartProcess(exec.Command(command[0], command[1:]...))
	d.Must(err)
	request := wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "es", AudioRef: "blob://a", Options: wire.DispatchOptions{PreferredNodeID: &id}}
	var placed wire.DispatchResponse
	d.Must(clustertest.EventuallyEvery(ctx, 10*time.Millisecond, time.Minute, func() error {
		if err := through.API.Post(ctx, "/v1/dispatch/f2f", request, &placed); err != nil {
			return err
		}
		if placed.NodeID != id {
			return fmt.Errorf("placed on %s", placed.NodeID)
		}
		return nil
	}))
	d.Must(d.waitFor(ctx, through, placed.JobID, "ACKED"))
	return &victim{process, placed.JobID, through}
}

// measure makes a node fail, and returns after what time another node had its job, and after what time that was done.
func (d *killDrill) measure(ctx context.Context, v *victim, fail func()) (delivered, ended time.Duration) {
	began := time.Now()
	fail()
	d.Must(d.waitFor(ctx, v.through, v.job, "DONE"))
	ended = time.Since(began)
	received, ok := d.received.Load(v.job)
	if !ok {
		d.TB.Fatalf("no other node has got job %s", v.job)
	}
	return received.(time.Time).Sub(began), ended
}

// waitFor waits until a job is in a state.
func (d *killDrill) waitFor(ctx context.Context, at *clustertest.Instance, id, state string) error {
	return clustertest.EventuallyEvery(ctx, 5*time.Millisecond, time.Minute, func() error {
		var job wire.Job
		if err := at.Read(ctx, "/v1/jobs/"+id, &job); err != nil || job.State != state {
			return fmt.Errorf("the job is %+v: %w", job, err)
		}
		return nil
	})
}
