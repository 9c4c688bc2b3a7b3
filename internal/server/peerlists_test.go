package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
)

// TestPeersMayAskForListsOnly: of the routes that need a credential, another instance may use those that instances ask of each other, and
// these only in the role of its caller.
func TestPeersMayAskForListsOnly(t *testing.T) {
	t.Parallel()
	const secret = "a-cluster-secret-of-at-least-32-characters"
	ts := startSchedulerWithRoles(t, func(c *config.Config) { c.Auth.ClusterSecrets = []string{secret} })
	client := auth.NewPeerClient("i-9", auth.NewPeerSecrets([]string{secret}), nil, func() bool { return true })
	var allowed []string
	for _, route := range ts.scheduler.Server.Routes() {
		method, path, _ := strings.Cut(route, " ")
		switch path {
		case "/healthz", "/readyz", "/v1/version", "/openapi.yaml", "/asyncapi.yaml":
			continue // public
		}
		path = strings.ReplaceAll(path, "{id}", "x")
		err := client.Get(t.Context(), ts.url, path, &auth.Principal{Role: auth.Operator}, new(json.RawMessage))
		if method == "GET" && err == nil {
			allowed = append(allowed, route)
		}
	}
	if diff := cmp.Diff([]string{"GET /v1/nodes/refused", "GET /v1/jobs", "GET /v1/sessions", "GET /v1/tenants"}, allowed); diff != "" {
		t.Errorf("routes that another instance may use (-want +got)\n%s", diff)
	}
	for role, may := range map[auth.Role]bool{auth.Viewer: true, auth.Minter: true, auth.Metrics: false, auth.Node: false, auth.Session: false, "": false, "root": false} {
		if err := client.Get(t.Context(), ts.url, "/v1/jobs", &auth.Principal{Role: role, Tenant: "acme"}, new(json.RawMessage)); (err == nil) != may {
			t.Errorf("the role %q: %v", role, err)
		}
	}
}
