package scheduler_test

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

var malformEach = flag.Bool("malform-each", false, "malform every key by itself, not only all at once")

// TestMalformedStore: two instances keep running when what Redis holds is malformed, nodes register again, jobs are dispatched through
// both, the statistics are published again, and another instance starts. A panic ends the process of the test.
func TestMalformedStore(t *testing.T) {
	t.Parallel()
	for _, how := range redistest.Malformations() {
		t.Run(how.Name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			instances := startCluster(t, redis.URL(), fastConfig(), nil)
			runOneNodeEach(t, instances)
			m := malformed{t, redis, instances}
			m.wantService("before anything is malformed")
			if *malformEach {
				for _, key := range redis.Keys() {
					redis.Malform(key, how, -1)
					m.wantService(key + " is malformed")
				}
			}
			keys := redis.Keys()
			for _, key := range keys {
				redis.Malform(key, how, -1)
			}
			m.wantService(fmt.Sprintf("%d keys are malformed", len(keys)))
			for _, key := range redis.Keys() {
				redis.Malform(key, how, -1)
			}
			cfg := fastConfig()
			cfg.Store, cfg.Server.Port, cfg.Server.ShutdownSeconds = redis.URL(), 0, 1
			runTest(t, func() *scheduler.Scheduler { return newScheduler(t, cfg) })
			m.wantService("another instance has started on malformed keys")
		})
	}
}

// runOneNodeEach runs a node at each instance until the test ends.
func runOneNodeEach(t *testing.T, instances cluster) {
	t.Helper()
	for i, in := range instances {
		fleet.StartNodes(t, fleet.Answer(node.Result{TextTgt: "done"}), node.Config{
			URL: in.peer.URL, ID: fmt.Sprint("n", i), Slots: 8, Declaration: wire.Declaration{SemanticLangs: []string{"en", "zh"}},
		})
	}
}

// malformed is a cluster whose store is malformed.
type malformed struct {
	t         *testing.T
	redis     *redistest.Server
	instances cluster
}

// wantService waits until each instance has dispatched a job and the statistics are published again.
func (m malformed) wantService(when string) {
	m.t.Helper()
	published := func() int64 {
		reply, _ := m.redis.Do("HGET", "lingua:v1:stats:snapshot", "published")
		at, _ := strconv.ParseInt(fmt.Sprint(reply), 10, 64)
		return at
	}
	before := published()
	for i, in := range m.instances {
		waitUntil(m.t, fmt.Sprintf("instance %d to dispatch, when %s", i, when), waitLimit, func() bool {
			request := wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "zh"}
			return in.peer.Post(m.t.Context(), "/v1/dispatch/f2f", request, &wire.DispatchResponse{}) == nil
		})
		for _, path := range []string{"/v1/nodes", "/v1/jobs", "/v1/instances", "/v1/events", "/v1/audit", "/api/v1/stats", "/v1/dlq", "/v1/waiting", "/v1/revocations"} {
			if err := in.peer.Get(m.t.Context(), path, nil); err != nil && strings.Contains(err.Error(), "connect") {
				m.t.Errorf("%s when %s: %v", path, when, err)
			}
		}
	}
	waitUntil(m.t, "the statistics to be published, when "+when, waitLimit, func() bool {
		now := published()
		return now > 0 && now != before && len(strconv.FormatInt(now, 10)) == 13
	})
}
