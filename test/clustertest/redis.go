package clustertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/redistest"
)

// Topologies of Redis.
const (
	Standalone   = "standalone"
	Sentinel     = "sentinel"
	RedisCluster = "cluster"
)

// Redis is the Redis of a cluster. Exactly one of its topologies is set.
type Redis struct {
	Topology string
	single   *redistest.Server
	sentinel *redistest.Sentinel
	cluster  *redistest.Cluster
	// of each instance to a standalone server; none in the other topologies, whose clients connect to the servers themselves
	Proxies []*redistest.Proxy
}

// StartRedis starts Redis in a topology, for a number of instances. It stops at the end of the test.
func StartRedis(tb testing.TB, name string, instances int) *Redis {
	tb.Helper()
	r := &Redis{Topology: name}
	switch name {
	case Standalone:
		r.single = redistest.Start(tb)
		for range instances {
			r.Proxies = append(r.Proxies, redistest.StartProxy(tb, r.single.Addr()))
		}
	case Sentinel:
		r.sentinel = redistest.StartSentinel(tb, redistest.WithConfig("min-replicas-to-write", "1")) // as docs/redis.md recommends
	case RedisCluster:
		r.cluster = redistest.StartCluster(tb)
	default:
		tb.Fatalf("the topology is %q, want %s, %s or %s", name, Standalone, Sentinel, RedisCluster)
	}
	return r
}

// URL returns the store URL for an instance.
func (r *Redis) URL(instance int) string {
	switch {
	case r.single != nil:
		return r.Proxies[instance].URL()
	case r.sentinel != nil:
		return r.sentinel.URL()
	}
	return r.cluster.URL()
}

// DirectURL returns a store URL for the test itself, which no proxy affects.
func (r *Redis) DirectURL() string {
	if r.single != nil {
		return r.single.URL()
	}
	return r.URL(0)
}

// All returns all servers, those without data included.
func (r *Redis) All() []*redistest.Server {
	if r.sentinel != nil {
		return append(r.sentinel.Servers(), r.sentinel.Sentinels()...)
	}
	return r.Servers()
}

// Servers returns all servers that hold data, primaries and replicas.
func (r *Redis) Servers() []*redistest.Server {
	switch {
	case r.single != nil:
		return []*redistest.Server{r.single}
	case r.sentinel != nil:
		return r.sentinel.Servers()
	}
	return r.cluster.Servers()
}

// Primaries returns the servers that serve the data at present.
func (r *Redis) Primaries() []*redistest.Server {
	switch {
	case r.single != nil:
		return []*redistest.Server{r.single}
	case r.sentinel != nil:
		return []*redistest.Server{r.sentinel.Primary()}
	}
	return r.cluster.Primaries()
}

// KillPrimary kills a primary and returns it.
func (r *Redis) KillPrimary(which int) *redistest.Server {
	if r.sentinel != nil {
		return r.sentinel.KillPrimary()
	}
	return r.cluster.KillPrimary(which % len(r.cluster.Primaries()))
}

// FailOver makes a replica primary in place of a primary that runs.
func (r *Redis) FailOver(which int) {
	if r.sentinel != nil {
		r.sentinel.FailOver()
		return
	}
	r.cluster.FailOver(which % len(r.cluster.Primaries()))
}

// WaitHealthy waits until all servers that run are in sync and serve all keys.
func (r *Redis) WaitHealthy(timeout time.Duration) {
	switch {
	case r.sentinel != nil:
		r.sentinel.WaitHealthy(timeout)
	case r.cluster != nil:
		r.cluster.WaitHealthy(timeout)
	}
}

// KeyLocation is a key and the server that holds it.
type KeyLocation struct {
	Key    string
	Server *redistest.Server
}

// Keys lists all keys that match a pattern.
func (r *Redis) Keys(pattern string) ([]KeyLocation, error) {
	var all []KeyLocation
	for _, server := range r.Primaries() {
		seen := make(map[string]bool) // SCAN may return a key twice
		for cursor := "0"; ; {
			reply, err := server.Do("SCAN", cursor, "MATCH", pattern, "COUNT", "1000")
			if err != nil {
				return nil, fmt.Errorf("SCAN at %s: %w", server.Addr(), err)
			}
			pair, _ := reply.([]any)
			if len(pair) != 2 {
				return nil, fmt.Errorf("SCAN answered %v", reply)
			}
			list, _ := pair[1].([]any)
			for _, k := range list {
				if key := fmt.Sprint(k); !seen[key] {
					seen[key] = true
					all = append(all, KeyLocation{key, server})
				}
			}
			if cursor = fmt.Sprint(pair[0]); cursor == "0" {
				break
			}
		}
	}
	return all, nil
}

// KeyCount returns the number of keys on all primaries.
func (r *Redis) KeyCount() (int64, error) {
	total := int64(0)
	for _, server := range r.Primaries() {
		reply, err := server.Do("DBSIZE")
		if err != nil {
			return 0, fmt.Errorf("DBSIZE at %s: %w", server.Addr(), err)
		}
		n, _ := reply.(int64)
		total += n
	}
	return total, nil
}

// ServerOf returns the server that holds a key.
func (r *Redis) ServerOf(key string) (*redistest.Server, error) {
	all := r.Primaries()
	if r.cluster == nil {
		return all[0], nil
	}
	if server := r.cluster.Owner(r.cluster.Slot(key)); server != nil {
		return server, nil
	}
	return nil, errors.New("no primary serves the slot of " + key)
}

// isMissingKey reports whether a command failed because its key does not exist. A key may expire between two commands.
func isMissingKey(err error) bool {
	var reply redistest.ReplyError
	return errors.As(err, &reply) && (strings.HasPrefix(string(reply), "NOGROUP") || strings.Contains(string(reply), "no such key"))
}
