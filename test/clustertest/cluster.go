package clustertest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// instanceIDVariable is the environment variable that gives an instance its name.
const instanceIDVariable = "LINGUA_SCHEDULER_PHASE2_INSTANCE_ID"

// Config describes a cluster.
type Config struct {
	Binary    string // of cmd/lingua, see Build
	Topology  string // Standalone, Sentinel or RedisCluster
	Instances int
	Settings  []byte // the lingua.toml of every instance
}

// Cluster is Redis, instances of the scheduler and the balancers before them. Load comes from drivers.
type Cluster struct {
	TB             testing.TB
	Dir            string // holds the configuration, the logs and the journals
	Redis          *Redis
	Instances      []*Instance
	NodeBalancer   *Balancer // for connections of nodes
	ClientBalancer *Balancer // for connections of sessions and callers
	Auditor        *ScriptAuditor
}

// Start starts a cluster, which stops at the end of the test, and returns when all instances are ready.
func Start(tb testing.TB, cfg Config) *Cluster {
	tb.Helper()
	c := &Cluster{TB: tb, Dir: tb.ArtifactDir(), Redis: StartRedis(tb, cfg.Topology, cfg.Instances)}
	settings := filepath.Join(c.Dir, "lingua.toml")
	c.Must(os.WriteFile(settings, cfg.Settings, 0o600))
	c.Auditor = StartScriptAuditor(tb, c.Redis)
	for n := range cfg.Instances {
		name := fmt.Sprintf("i-%d", n)
		i := NewInstance(tb, name, cfg.Binary, filepath.Join(c.Dir, name+".log"))
		i.Args = []string{"--config", settings}
		i.Env = []string{
			"LINGUA_STORE=" + c.Redis.URL(n), "LINGUA_SCHEDULER_PHASE2_REDIS_KEY_PREFIX=" + KeyPrefix, instanceIDVariable + "=" + name,
		}
		c.Must(i.Start(tb.Context()))
		c.Instances = append(c.Instances, i)
	}
	c.NodeBalancer, c.ClientBalancer = StartBalancer(tb, c.Instances), StartBalancer(tb, c.Instances)
	return c
}

// Must fails the test if there is an error.
func (c *Cluster) Must(err error) {
	c.TB.Helper()
	if err != nil {
		c.TB.Fatal(err)
	}
}

// IndexOf returns the number of an instance, or -1.
func (c *Cluster) IndexOf(instance *Instance) int {
	for n, i := range c.Instances {
		if i == instance {
			return n
		}
	}
	return -1
}
