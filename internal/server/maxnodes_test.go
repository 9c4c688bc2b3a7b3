package server_test

import (
	"net/http"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestMaxNodesOfAKey: a key registers as many nodes as it may, over HTTP and WebSockets together, and registers one again at any time.
func TestMaxNodesOfAKey(t *testing.T) {
	t.Parallel()
	const secret = "secret-of-a-key-for-two-nodes"
	ts := startScheduler(t, setKeys, func(c *config.Config) {
		c.Auth.Keys = []config.Key{{Name: "two", Role: "node", Nodes: "two-*", MaxNodes: 2, SHA256: []string{hashOf(secret)}}}
	})
	first := registerKeyed(ts, "two-1", secret)
	conn := ts.dialAs("/ws/node", secret, false)
	conn.send(object{"type": "node_register", "node_id": "two-2", "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 2})
	conn.readUntil("node_register_ack")
	third := declaration("two-3", first.callback())
	for _, path := range []string{"/v1/node/register", "/v1/node/heartbeat"} {
		if e := ts.requestAs(secret, "POST", path, third).expectError(wire.RateLimited); e.Field != "node_id" || e.RetryAfterMS == 0 {
			t.Errorf("%s: %+v", path, e)
		}
	}
	var again wire.RegisterResponse
	ts.requestAs(secret, "POST", "/v1/node/register", declaration("two-1", first.callback()).with(object{"node_token": first.nodeToken})).decode(&again)
	var removed wire.NodeRemoved
	ts.requestAs(operatorKey, "DELETE", "/v1/nodes/two-1", nil).decode(&removed)
	// The nodes of a key are counted in the view of the fleet, which follows the store.
	ts.eventually("the removed node does not count", func() bool {
		answer := ts.requestAs(secret, "POST", "/v1/node/register", third)
		if answer.status != http.StatusOK {
			answer.expectError(wire.RateLimited)
		}
		return answer.status == http.StatusOK
	})
}
