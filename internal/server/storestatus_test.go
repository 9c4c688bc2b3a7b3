package server_test

import (
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestStoreInMemory shows a store without servers.
func TestStoreInMemory(t *testing.T) {
	t.Parallel()
	var memory wire.StoreStatus
	ts := startScheduler(t, func(c *config.Config) { c.Store = "memory" })
	ts.get("/v1/store").decode(&memory)
	if memory.Kind != "memory" || !memory.Reachable || memory.Mode != "" || memory.Servers != nil || memory.Latency != nil || memory.GeneratedMS == 0 {
		t.Errorf("in memory: %+v", memory)
	}
	ts.get("/v1/store?nope=1").expectError(wire.InvalidRequest)
}

// TestStoreStatus shows a Redis: its server, the latency of calls, no password, and that it does not answer any more.
func TestStoreStatus(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	if _, err := redis.Do("ACL", "SETUSER", "lingua", "on", ">extremely-secret", "~*", "+@all"); err != nil {
		t.Fatal(err)
	}
	shared := startScheduler(t, func(c *config.Config) {
		c.Store = strings.Replace(redis.URL(), "//", "//lingua:extremely-secret@", 1)
	})
	answer := shared.get("/v1/store")
	if strings.Contains(string(answer.body), "secret") {
		t.Errorf("the answer has a credential: %s", answer.body)
	}
	var status wire.StoreStatus
	answer.decode(&status)
	if status.Kind != "redis" || status.Mode != "standalone" || !status.Reachable || len(status.Servers) != 1 || status.CheckedMS == 0 {
		t.Fatalf("Redis: %+v", status)
	}
	s := status.Servers[0]
	if s.Address != redis.Addr() || s.Role != "primary" || !s.Healthy || s.Version == "" || s.UsedMemory == 0 || s.Policy != "noeviction" || s.PingMS == nil || s.Clients == 0 || s.LagBytes != nil {
		t.Errorf("the server: %+v", s)
	}
	if l := status.Latency; l == nil || l.Calls == 0 || l.P50MS <= 0 || l.P99MS < l.P50MS || l.MaxMS < l.P99MS {
		t.Errorf("the latency: %+v", l)
	}
	var again wire.StoreStatus
	shared.get("/v1/store").decode(&again)
	if again.CheckedMS != status.CheckedMS {
		t.Error("the server was asked again within a moment")
	}
	if status.Problem != "" {
		t.Errorf("a problem with a store that answers: %s", status.Problem)
	}
	redis.Kill()
	shared.eventually("the store does not answer", func() bool {
		var now wire.StoreStatus
		shared.get("/v1/store").decode(&now)
		return !now.Reachable && now.Problem == "the shared store does not answer" && len(now.Servers) == 1 && !now.Servers[0].Healthy && now.Servers[0].Role == "primary"
	})
}
