package server_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestCallerContext: the answer says which instance answers, whether there are tenants, and has the links that are in force.
func TestCallerContext(t *testing.T) {
	t.Parallel()
	links := []config.Link{{Name: "Grafana", URL: "https://grafana.example.com/d/lingua"}, {Name: "Runbook", URL: "http://wiki/lingua"}}
	withLinks := func(c *config.Config) { c.Dashboard.Links = links }
	ts := startScheduler(t, withLinks)
	caller := func() (v wire.Caller) {
		t.Helper()
		ts.get("/v1/caller").decode(&v)
		return v
	}
	want := wire.Caller{Role: "operator", Open: true, CallerContext: wire.CallerContext{
		Version: "test", Instance: string(ts.scheduler.Bus.Instance()),
		Links: []wire.Link{{Name: "Grafana", URL: "https://grafana.example.com/d/lingua"}, {Name: "Runbook", URL: "http://wiki/lingua"}},
	}}
	if diff := cmp.Diff(want, caller()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	next := config.Default()
	next.Dashboard.Links = links[:1]
	ts.scheduler.SetConfigSource(func() (config.Config, []string, error) { return next, nil, nil })
	var reloaded wire.ReloadResponse
	ts.request("POST", "/v1/config/reload", "", nil).decode(&reloaded)
	if diff := cmp.Diff([]string{"dashboard.links: 1 links"}, reloaded.Changed); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := caller(); len(got.Links) != 1 {
		t.Errorf("after a reload: %v", got.Links)
	}
	ts.registerNode("n1", object{"tenant_id": "acme"})
	if !caller().MultiTenant {
		t.Error("a node of a tenant does not count")
	}
	var keyed wire.Caller
	startMatrix(t).requestAs(keySecret("viewer"), "GET", "/v1/caller", nil).decode(&keyed)
	if !keyed.MultiTenant || keyed.Open || len(keyed.Links) != 0 {
		t.Errorf("with keys of tenants: %+v", keyed)
	}
}
