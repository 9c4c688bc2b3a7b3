package drill

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// topology is the Redis of a drill. Its methods that may fail the test are called from the test's own goroutine.
type topology struct {
	name     string
	single   *redistest.Server // one of the three
	sentinel *redistest.Sentinel
	cluster  *redistest.Cluster
	links    []*redistest.Proxy // of each instance to it; none where clients are told addresses by Redis itself
}

func startTopology(tb testing.TB, name string, instances int) *topology {
	tb.Helper()
	t := &topology{name: name}
	switch name {
	case "standalone":
		t.single = redistest.Start(tb)
		for range instances {
			t.links = append(t.links, redistest.StartProxy(tb, t.single.Addr()))
		}
	case "sentinel":
		t.sentinel = redistest.StartSentinel(tb)
	case "cluster":
		t.cluster = redistest.StartCluster(tb)
	default:
		tb.Fatalf("-drill-topology is %q; it may be standalone, sentinel or cluster", name)
	}
	return t
}

// url is where an instance finds it.
func (t *topology) url(instance int) string {
	switch {
	case t.single != nil:
		return t.links[instance].URL()
	case t.sentinel != nil:
		return t.sentinel.URL()
	}
	return t.cluster.URL()
}

// servers are all that hold data, also those that only have a copy now.
func (t *topology) servers() []*redistest.Server {
	switch {
	case t.single != nil:
		return []*redistest.Server{t.single}
	case t.sentinel != nil:
		return t.sentinel.Servers()
	}
	return t.cluster.Servers()
}

// primaries are the servers that hold the data.
func (t *topology) primaries() []*redistest.Server {
	switch {
	case t.single != nil:
		return []*redistest.Server{t.single}
	case t.sentinel != nil:
		return []*redistest.Server{t.sentinel.Primary()}
	}
	return t.cluster.Primaries()
}

// kill kills a primary and returns it.
func (t *topology) kill(which int) *redistest.Server {
	if t.sentinel != nil {
		return t.sentinel.KillPrimary()
	}
	return t.cluster.KillPrimary(which % len(t.cluster.Primaries()))
}

// healthy waits until it is whole again.
func (t *topology) healthy(within time.Duration) {
	switch {
	case t.sentinel != nil:
		t.sentinel.WaitHealthy(within)
	case t.cluster != nil:
		t.cluster.WaitHealthy(within)
	}
}

// found is a key and the server that holds it.
type found struct {
	key string
	at  *redistest.Server
}

// keys lists all keys that match.
func (t *topology) keys(pattern string) ([]found, error) {
	var all []found
	for _, server := range t.primaries() {
		seen := make(map[string]bool) // SCAN may say one twice
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
					all = append(all, found{key, server})
				}
			}
			if cursor = fmt.Sprint(pair[0]); cursor == "0" {
				break
			}
		}
	}
	return all, nil
}

// size is how many keys there are.
func (t *topology) size() (int64, error) {
	total := int64(0)
	for _, server := range t.primaries() {
		reply, err := server.Do("DBSIZE")
		if err != nil {
			return 0, fmt.Errorf("DBSIZE at %s: %w", server.Addr(), err)
		}
		n, _ := reply.(int64)
		total += n
	}
	return total, nil
}

// at is the server that holds a key.
func (t *topology) at(key string) (*redistest.Server, error) {
	all := t.primaries()
	if t.cluster == nil {
		return all[0], nil
	}
	if server := t.cluster.Owner(t.cluster.Slot(key)); server != nil {
		return server, nil
	}
	return nil, errors.New("nobody serves the slot of " + key)
}

// noSuchKey reports that Redis says a key is gone: it may have gone between two questions.
func noSuchKey(err error) bool {
	var said redistest.ErrorReply
	return errors.As(err, &said) && (strings.HasPrefix(string(said), "NOGROUP") || strings.Contains(string(said), "no such key"))
}
