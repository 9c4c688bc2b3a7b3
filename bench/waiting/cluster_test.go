package waiting

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

var measureFor = flag.Duration("waiting-for", 0, "how long each load is measured; 0: a moment, without judging the figures")

// judged reports whether the figures are measured, not only computed.
func judged() bool { return *measureFor > 0 }

// besideOthers lets a test run beside the others if its figures are not judged.
func besideOthers(t *testing.T) {
	if !judged() {
		t.Parallel()
	}
}

// duration is how long a load is measured.
func duration() time.Duration {
	if judged() {
		return *measureFor
	}
	return 2 * time.Second
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "lingua-waiting")
	if err != nil {
		return "", err
	}
	return clustertest.Build(dir, "lingua")
})

// jobTime is how long a job takes on average: half to one and a half times as long.
const jobTime = 200 * time.Millisecond

// cluster is three instances, with nodes that are connected to all of them.
type cluster struct {
	t         *testing.T
	redis     *redistest.Server
	instances []*clustertest.Instance
	slots     int
	http      *http.Client
	requests  atomic.Int64
}

// startCluster starts instances and nodes of four slots. Weights are those of the tenants flood and other.
func startCluster(t *testing.T, nodes int, weights [2]int, takes time.Duration) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("it runs processes of the scheduler")
	}
	binary, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, redis: redistest.Start(t), slots: 4 * nodes}
	c.http = &http.Client{Transport: &http.Transport{MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096}}
	t.Cleanup(c.http.CloseIdleConnections)
	dir := t.TempDir()
	settings := filepath.Join(dir, "lingua.toml")
	text := fmt.Sprintf("[server]\nper_address = 0\n[log]\nlevel = \"warn\"\n[scheduler.dispatch]\njob_timeout_ms = 120000\nattempt_timeout_ms = 100000\n"+
		"[scheduler.sessions]\nper_address = 0\n[[scheduler.tenants]]\nid = \"flood\"\nweight = %d\n[[scheduler.tenants]]\nid = \"other\"\nweight = %d\n", weights[0], weights[1])
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		name := fmt.Sprintf("i-%d", n)
		i := clustertest.NewInstance(t, name, binary, filepath.Join(dir, name+".log"))
		i.Args = []string{"--config", settings, "--store", c.redis.URL()}
		i.Env = []string{"LINGUA_SCHEDULER_PHASE2_INSTANCE_ID=" + name}
		if err := i.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.instances = append(c.instances, i)
	}
	c.startNodes(nodes, takes)
	return c
}

func (c *cluster) startNodes(count int, takes time.Duration) {
	c.t.Helper()
	worker := &lab.Worker{JobDuration: func() time.Duration { return takes/2 + rand.N(takes) }}
	fleet.StartNodes(c.t, worker.Do, fleet.Configs(count, func(n int) node.Config {
		return node.Config{URL: c.instances[n%len(c.instances)].URL(), ID: fmt.Sprintf("node-%d", n), Slots: 4}
	})...)
	for _, i := range c.instances {
		if err := lab.WaitNodes(c.t.Context(), i.API, count); err != nil {
			c.t.Fatal(err)
		}
	}
}

// result is what became of a request.
type result struct {
	at      time.Time // when it was answered
	took    time.Duration
	refusal wire.Code // empty: it was placed
}

// dispatch sends a request of a tenant to an instance and waits for its answer.
func (c *cluster) dispatch(ctx context.Context, instance int, tenant string, wait time.Duration) (result, error) {
	api := &lab.API{URL: c.instances[instance].URL(), HTTP: c.http}
	ms := wait.Milliseconds()
	began := time.Now()
	var placed wire.DispatchResponse
	err := api.Post(ctx, "/v1/dispatch/f2f", wire.DispatchRequest{
		RequestID: fmt.Sprintf("r-%d", c.requests.Add(1)), TenantID: tenant, SessionID: "room", SrcLang: "en", TgtLang: "es", AudioRef: "blob://a",
		Options: wire.DispatchOptions{MaxWaitMS: &ms},
	}, &placed)
	r := result{at: time.Now(), took: time.Since(began)}
	var refusal *wire.Error
	switch {
	case err == nil:
		return r, nil
	case errors.As(err, &refusal):
		r.refusal = refusal.Code
		return r, nil
	}
	return r, err
}
