package server_test

import (
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestPoolsAreNotShownToOtherTenants: a caller of one tenant learns neither the names of pools in which it has no nodes nor the services that
// they require, wherever it asks.
func TestPoolsAreNotShownToOtherTenants(t *testing.T) {
	t.Parallel()
	keys := map[string]config.Key{
		"operator":    {Role: "operator"},
		"globex-gpu":  {Role: "node", Tenant: "globex", Nodes: "globex-*"},
		"view-globex": {Role: "viewer", Tenant: "globex"},
	}
	ts := startPools(t, func(c *config.Config) {
		c.Callback.AllowedTargets = []string{"127.0.0.0/8"}
		for name, k := range keys {
			k.Name, k.SHA256 = name, []string{hashOf(keySecret(name))}
			c.Auth.Keys = append(c.Auth.Keys, k)
		}
		c.Scheduler.Phase3.StrictPoolEligibility = true
	})
	register := declaration("globex-1", ts.newNode("globex-1").callback()).with(object{"installed_services": []object{service("asr-2", "asr")}})
	ts.requestAs(keySecret("globex-gpu"), "POST", "/v1/node/register", register).decode(&wire.RegisterResponse{})

	var n wire.Node
	ts.requestAs(keySecret("operator"), "GET", "/v1/nodes/globex-1", nil).decode(&n)
	if want := (wire.PoolGap{ClosestPool: "large", MissingService: "asr-1@>=1"}); n.NoPool == nil || *n.NoPool != want {
		t.Errorf("an operator sees %+v, want %+v", n.NoPool, want)
	}
	n = wire.Node{}
	ts.requestAs(keySecret("view-globex"), "GET", "/v1/nodes/globex-1", nil).decode(&n)
	if n.NoPool == nil || *n.NoPool != (wire.PoolGap{}) {
		t.Errorf("the tenant sees %+v, want only that there is none", n.NoPool)
	}
	all := object{"tenant_id": "globex", "options": object{"required_services": []string{"asr-2"}, "preferred_node_id": "globex-1"}}
	for name, body := range map[string][]byte{
		"node":             ts.requestAs(keySecret("view-globex"), "GET", "/v1/nodes/globex-1", nil).body,
		"nodes":            ts.requestAs(keySecret("view-globex"), "GET", "/v1/nodes", nil).body,
		"directions":       ts.requestAs(keySecret("view-globex"), "GET", "/v1/directions", nil).body,
		"pools":            ts.requestAs(keySecret("view-globex"), "GET", "/api/v1/phase3/pools", nil).body,
		"explain":          ts.requestAs(keySecret("view-globex"), "POST", "/v1/dispatch/explain", dispatchBody(nil)).body,
		"explain, options": ts.requestAs(keySecret("view-globex"), "POST", "/v1/dispatch/explain", dispatchBody(all)).body,
		"dispatch":         ts.requestAs(keySecret("operator"), "POST", "/v1/dispatch/f2f", dispatchBody(object{"tenant_id": "globex"})).body,
		"preferred":        ts.requestAs(keySecret("operator"), "POST", "/v1/dispatch/f2f", dispatchBody(all)).body,
		"events":           ts.requestAs(keySecret("view-globex"), "GET", "/v1/events", nil).body,
		"jobs":             ts.requestAs(keySecret("view-globex"), "GET", "/v1/jobs", nil).body,
	} {
		for _, secret := range []string{"large", "small", "asr-1", "Large models"} {
			if strings.Contains(string(body), secret) {
				t.Errorf("%s: %q is in %s", name, secret, body)
			}
		}
	}
}
