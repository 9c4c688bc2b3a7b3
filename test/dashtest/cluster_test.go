package dashtest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// Keys of the tests, by the names that the programs know them by.
var keys = map[string]string{
	"operator": "operator-key-of-these-tests", "viewer": "viewer-key-of-these-tests", "acme": "acme-viewer-key-of-these-tests",
}

// basePath is the prefix below which the instances answer, too.
const basePath = "/kept"

const nodeToken = "node-token-of-these-tests"

// testCluster is instances with one Redis, with keys as in production, and the fleet and conversations of the demo.
type testCluster struct {
	t         testing.TB
	redis     *redistest.Server
	instances []*clustertest.Instance
	balancer  *clustertest.Balancer
	holderURL string // of the node that holds jobs
}

// conversations is how many conversations the tests have.
const conversations = 8

// startCluster starts instances, and the fleet of the demo with conversations. Short tests do not run it.
func startCluster(t testing.TB, instances, conversations int) *testCluster {
	t.Helper()
	if testing.Short() {
		t.Skip("it runs processes of the scheduler, and most of its tests a browser")
	}
	binary, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	c := &testCluster{t: t, redis: redistest.Start(t)}
	dir := t.ArtifactDir()
	settings := filepath.Join(dir, "lingua.toml")
	c.must(os.WriteFile(settings, []byte(configuration()), 0o600))
	for n := range instances {
		name := fmt.Sprintf("i-%d", n)
		i := clustertest.NewInstance(t, name, binary, filepath.Join(dir, name+".log"))
		i.Args = []string{"--config", settings, "--store", c.redis.URL()}
		i.Env = []string{
			"LINGUA_SCHEDULER_PHASE2_INSTANCE_ID=" + name, "LINGUA_SCHEDULER_PHASE2_REDIS_KEY_PREFIX=" + clustertest.KeyPrefix,
		}
		c.must(i.Start(t.Context()))
		c.instances = append(c.instances, i)
	}
	c.balancer = clustertest.StartBalancer(t, c.instances)
	c.startFleet(conversations)
	c.waitStats()
	return c
}

// waitStats waits until every instance has statistics: before the leader has published the first ones, their routes answer with an error.
func (c *testCluster) waitStats() {
	for _, i := range c.instances {
		api := lab.NewAPI(i.URL())
		api.Token = keys["operator"]
		for {
			err := api.Get(c.t.Context(), "/api/v1/stats", new(wire.Stats))
			if err == nil {
				break
			}
			if !run.Sleep(c.t.Context(), 50*time.Millisecond) {
				c.t.Fatalf("%s has no statistics: %v", i.Name, err)
			}
		}
		api.Close()
	}
}

// configuration returns the configuration of all instances.
func configuration() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[server]\nper_address = 0\nshutdown_seconds = 3\nbase_path = %q\n[scheduler.sessions]\nper_address = 0\n[callback]\nallowed_targets = [\"127.0.0.0/8\"]\n", basePath)
	fmt.Fprintf(&b, "[auth]\nnode_tokens = [\"*=%s\"]\nsession_secret = \"%064d\"\ncluster_secret = [\"%064d\"]\n", nodeToken, 1, 2)
	b.WriteString("[[scheduler.tenants]]\nid = \"acme\"\nweight = 3\nmax_in_flight = 50\nmax_sessions = 20\n[[scheduler.tenants]]\nid = \"beta\"\ndispatch_per_second = 2\n")
	for name, secret := range keys {
		role, tenant := name, ""
		if name == "acme" {
			role, tenant = "viewer", "tenant = \"acme\"\n"
		}
		fmt.Fprintf(&b, "[[auth.keys]]\nname = %q\nrole = %q\n%ssha256 = [\"%x\"]\n", name, role, tenant, sha256.Sum256([]byte(secret)))
	}
	return b.String()
}

// startFleet starts the nodes of the demo and conversations between them, which end with the test.
func (c *testCluster) startFleet(conversations int) {
	ctx, stop := context.WithCancel(context.WithoutCancel(c.t.Context()))
	var running sync.WaitGroup
	c.t.Cleanup(func() {
		stop()
		running.Wait()
	})
	quiet := slog.New(slog.DiscardHandler)
	nodes := append(lab.DemoNodes(), lab.ContestedNode())
	for _, n := range nodes {
		n.Token = nodeToken
		running.Go(func() { _ = n.Run(ctx, c.balancer.URL(), quiet) }) // the error is that of the cancelled context
	}
	api := lab.NewAPI(c.balancer.URL())
	api.Token = keys["operator"]
	defer api.Close()
	c.must(lab.WaitNodes(ctx, api, len(nodes)))
	running.Go(func() {
		(&lab.Rivals{URL: c.balancer.URL(), Token: keys["operator"], Tenants: []string{"acme", "beta"}, Callers: 4}).Run(ctx)
	})
	for i := range conversations {
		running.Go(func() {
			for ctx.Err() == nil { // a session that is lost with its instance is followed by another
				_ = (&lab.Conversation{
					URL: c.balancer.URL(), Token: keys["operator"], Langs: lab.LanguagePairs[i%len(lab.LanguagePairs)],
					Pause: lab.LogNormal(600*time.Millisecond, 0.5), OnUtterance: func(lab.Utterance) {}, OnResume: func() {},
				}).Run(ctx)
			}
		})
	}
}

// instance returns the instance with an incarnation such as i-1-x7.
func (c *testCluster) instance(incarnation string) *clustertest.Instance {
	for _, i := range c.instances {
		if strings.HasPrefix(incarnation, i.Name+"-") {
			return i
		}
	}
	c.t.Fatalf("no instance is %q", incarnation)
	return nil
}

func (c *testCluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}
