package transcripts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/wire"
)

// startTenants starts a scheduler with the tenants of docs/tenants.md.
func startTenants(t *testing.T, settings string) *clustertest.Instance {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lingua.toml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	i := newInstance(t, "a", nil)
	i.Args = []string{"--config", file}
	if err := i.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

// TestTenantsWalkThrough records what docs/tenants.md shows: a tenant that reaches its limit, and the list of tenants.
func TestTenantsWalkThrough(t *testing.T) {
	t.Parallel()
	i := startTenants(t, blockOf(t, "toml tenants").Body)
	node, _ := registerNode(t, i, nil)
	binary, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	m := &terminal{t: t, binary: binary, instance: i}
	dispatch := func(tenant string) string {
		return `{"session_id":"room-1","tenant_id":"` + tenant + `","src_lang":"en","tgt_lang":"es"}`
	}
	for _, tenant := range []string{"beta", "acme"} { // the node has two slots
		var placed wire.DispatchResponse
		if err := json.Unmarshal([]byte(m.fetch("/v1/dispatch/f2f", dispatch(tenant))), &placed); err != nil || placed.JobID == "" {
			t.Fatalf("the job of %s: %+v, %v", tenant, placed, err)
		}
		accept(node)
	}
	m.curl("/v1/dispatch/f2f", dispatch("acme"))
	m.compare("tenants-refusal")
	m.eventually(`(?m)^acme +4 +1 of 1 .*\b10\.0 of 10/s`, "tenants") // the bucket is full again
	m.run("tenants")
	m.compare("tenants-list")
}

func recordSessionTenant(t *testing.T, rec *recorder) {
	i := startTenants(t, "[[scheduler.tenants]]\nid = \"*\"\nmax_sessions = 1\n")
	startSession(t, i, nil, startOf(wire.EncodingPCM))
	rec.note("max_sessions is 1 here, and there is a session")
	client := connect(t, i, "/ws/session", rec)
	start := startOf(wire.EncodingPCM)
	start.SessionID = "room-889"
	client.send(start)
	expect[wire.ErrorFrame](client)
	client.expectClose(wire.CloseTooFast)
}
