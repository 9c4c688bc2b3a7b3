//go:build !race

// The race detector makes tests that count commands five times slower, and has nothing to find in them.

package redisstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// countCommands returns the commands that a server runs during a call, with those that scripts call.
func countCommands(t *testing.T, server *redistest.Server, call func() error) map[string]int64 {
	t.Helper()
	before := server.CommandStats()
	if err := call(); err != nil {
		t.Fatal(err)
	}
	counted := make(map[string]int64)
	for name, n := range server.CommandStats() {
		if d := n - before[name]; d > 0 && name != "info" && name != "ping" { // silent connections are pinged
			counted[name] = d
		}
	}
	return counted
}

// periodicCall is a call that every instance repeats while nothing happens.
type periodicCall struct {
	name string
	call func() error
	want map[string]int64
}

// periodicCalls returns the periodic calls of an instance, with their cost if some nodes are registered and all were seen lately.
func periodicCalls(t *testing.T, s *redisstore.Store, nodes bool) []periodicCall {
	overdue := map[string]int64{"hget": 1, "evalsha": 1, "time": 1, "exists": 1}
	digests := map[string]int64{"exists": 1}
	if nodes {
		overdue["zrange"], overdue["zcard"] = 16, 16
		digests = map[string]int64{"exists": 1, "evalsha": 16, "time": 16, "zrange": 16, "hgetall": 16}
	}
	ctx := t.Context()
	setting := store.WriteValueParams{
		Key: store.ValueKey{Kind: store.SettingValue, Name: "pools"}, Parts: map[string][]byte{store.BodyPart: []byte("body"), "generation": []byte("1")},
	}
	snapshot := store.WriteValueParams{
		Key: store.ValueKey{Kind: store.SnapshotValue}, Fence: 1, Parts: map[string][]byte{store.BodyPart: []byte("body")}, TTL: time.Hour,
	}
	known := make(map[store.ValueKey]string)
	for _, p := range []store.WriteValueParams{setting, snapshot} {
		if _, err := s.WriteValue(ctx, p); err != nil {
			t.Fatal(err)
		}
		v, err := store.ReadValue(ctx, s, store.ValueQuery{Key: p.Key})
		if err != nil {
			t.Fatal(err)
		}
		known[p.Key] = v.Version
	}
	// read reads a value, and checks whether there are parts.
	read := func(q store.ValueQuery, parts bool) func() error {
		return func() error {
			v, err := store.ReadValue(ctx, s, q)
			if err == nil && (v.Parts != nil) != parts {
				err = fmt.Errorf("%+v has the parts %q", q, v.Parts)
			}
			return err
		}
	}
	return []periodicCall{
		{"renewal of the presence", func() error {
			return s.Announce(ctx, store.AnnounceParams{ID: "i-1", Body: []byte("me"), TTL: time.Minute})
		}, map[string]int64{"zadd": 1, "set": 1}},
		{"search for absent instances", func() error {
			_, err := s.Instances(ctx, store.InstancesParams{SilentFor: time.Minute})
			return err
		}, map[string]int64{"zrange": 1}},
		{"presences", func() error {
			_, err := s.Instances(ctx, store.InstancesParams{})
			return err
		}, map[string]int64{"zrange": 1, "mget": 1}},
		{"poll of the nodes", func() error {
			_, err := s.Overdue(ctx, time.Minute)
			return err
		}, overdue},
		{"comparison of the fleet", func() error {
			_, err := s.Digests(ctx)
			return err
		}, digests},
		{"version of the revocations", func() error {
			_, err := s.ReadRevocations(ctx, time.Time{}, new(string))
			return err
		}, map[string]int64{"get": 1}},
		{"snapshot that is known", read(store.ValueQuery{Key: snapshot.Key, Known: known[snapshot.Key]}, false), map[string]int64{"hmget": 1}},
		{"snapshot that is due", read(store.ValueQuery{Key: snapshot.Key}, true), map[string]int64{"hgetall": 1}},
		{"setting that is known", read(store.ValueQuery{Key: setting.Key, Known: known[setting.Key]}, false), map[string]int64{"hmget": 1}},
		{"setting that was never published", read(store.ValueQuery{Key: store.ValueKey{Kind: store.SettingValue, Name: "none"}}, false), map[string]int64{"hgetall": 1}},
		{"renewal of a lock", func() error {
			_, err := s.Lock(ctx, store.LockParams{Name: "stats", Holder: "i-1", TTL: time.Minute})
			return err
		}, map[string]int64{"evalsha": 1, "time": 1, "mget": 1, "set": 2}},
		{"lock of another holder", func() error {
			_, err := s.Lock(ctx, store.LockParams{Name: "stats", Holder: "i-2", TTL: time.Minute})
			return err
		}, map[string]int64{"evalsha": 1, "time": 1, "mget": 1}},
	}
}

// registerNodes registers nodes, and returns them.
func registerNodes(t *testing.T, s *redisstore.Store, count int) []*core.Node {
	t.Helper()
	registered := make([]*core.Node, count)
	var calls sync.WaitGroup
	for i := range registered {
		calls.Go(func() {
			n := core.Node{ID: core.NodeID(fmt.Sprintf("node-%d", i)), Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4}}
			n.Semantic = core.LangSet{"en"}
			r, err := s.Register(t.Context(), store.RegisterParams{Node: n, Load: core.UnknownLoad})
			if err != nil {
				t.Error(err)
			}
			registered[i] = r.Node
		})
	}
	calls.Wait()
	return registered
}

// TestCommandsOfPeriodicCalls checks what each of the calls costs that an instance repeats while nothing happens. With the intervals of the
// callers it is at most 10 commands a second. The cost does not depend on the number of nodes.
func TestCommandsOfPeriodicCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL())
	for _, nodes := range []int{0, 100, 600} {
		registerNodes(t, s, nodes)
		for _, c := range periodicCalls(t, s, nodes > 0) {
			if err := c.call(); err != nil { // the first time, the script is loaded, the inbox created and the lock acquired
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, countCommands(t, server, c.call)); diff != "" {
				t.Errorf("%s with %d nodes (-want +got):\n%s", c.name, nodes, diff)
			}
		}
	}
}

// TestCommandsOfAHeartbeat checks that a heartbeat without a change does not read the declaration, and that the times of many nodes are
// reported together.
func TestCommandsOfAHeartbeat(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL())
	known := registerNodes(t, s, 200)
	send := func() error {
		for _, n := range known {
			if _, err := s.Heartbeat(t.Context(), store.HeartbeatParams{Node: n.ID, Known: n, Load: core.UnknownLoad}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := send(); err != nil { // the script is loaded
		t.Fatal(err)
	}
	began := time.Now()
	got := countCommands(t, server, send)
	took := time.Since(began)
	if got["hget"] != 0 || got["hmget"] != 200 {
		t.Errorf("%v, want 200 reads of the fields and none of the declaration", got)
	}
	reports := got["evalsha"] - 200
	if most := int64(took/(200*time.Millisecond)) + 2; reports > most || got["zadd"] != got["hset"]-200 {
		t.Errorf("%v, want at most %d reports of last-seen times in %v, with as many digests", got, most, took)
	}
}
