package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

const tenantsConfig = `
[[scheduler.tenants]]
id = "acme"
weight = 4
max_in_flight = 1
max_sessions = 20
dispatch_per_second = 10
audio_seconds_per_minute = 1200
`

func TestTenantsCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lingua.toml")
	if err := os.WriteFile(file, []byte(tenantsConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "--config", file)
	s.registerWith(t, "n1", "asr-base", "1")
	for _, tenant := range []string{"acme", "beta"} {
		s.post(t, "/v1/dispatch/f2f", `{"session_id":"talk","tenant_id":%q,"src_lang":"en","tgt_lang":"zh"}`, tenant)
	}
	lingua := func(args ...string) result {
		t.Helper()
		got := runCommand(t, append(append([]string{"tenants"}, args...), "--server", s.url)...)
		if got.code != exitOK || got.err != "" {
			t.Errorf("lingua tenants %s: exit %d: %s", strings.Join(args, " "), got.code, got.err)
		}
		return got
	}
	want := []string{
		"TENANT WEIGHT IN FLIGHT SESSIONS DISPATCHES LEFT AUDIO LEFT REFUSED",
		"acme 4 1 of 1 0 of 20 N of 10/s 1200 s of 1200 s/min –", "beta 1 1 0 – – –",
	}
	got := rows(regexp.MustCompile(`\d+\.\d of 10/s`).ReplaceAllString(lingua().out, "N of 10/s"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lingua tenants (-want +got)\n%s", diff)
	}
	if got := rows(lingua("beta").out); len(got) != 2 || got[1] != want[2] {
		t.Errorf("lingua tenants beta: %q", got)
	}
	var list wire.TenantList
	if err := json.Unmarshal([]byte(lingua("--json").out), &list); err != nil || len(list.Tenants) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestTenantsTable: what the table shows of refusals, of callers without a tenant, and of a list that is not complete.
func TestTenantsTable(t *testing.T) {
	t.Parallel()
	list := &wire.TenantList{NextCursor: "x", Partial: true, Tenants: []wire.TenantInfo{{
		Weight: 0.5, InFlight: wire.TenantUse{Used: 3}, Audio: &wire.TenantRate{Limit: 60, Left: -12.4}, Refusals: map[string]int64{"max_in_flight": 4, "audio_seconds_per_minute": 1},
	}}}
	out := new(strings.Builder)
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	writeTenants(w, list)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	got := rows(out.String())
	want := []string{
		"TENANT WEIGHT IN FLIGHT SESSIONS DISPATCHES LEFT AUDIO LEFT REFUSED",
		"(none) 0.5 3 0 – -12 s of 60 s/min audio_seconds_per_minute 1, max_in_flight 4",
		"an instance did not answer: counts without a limit, and refusals, are too low",
	}
	if diff := cmp.Diff(want, got[:min(len(got), 3)]); diff != "" || len(got) < 4 {
		t.Errorf("(-want +got)\n%s\n%q", diff, got)
	}
}
