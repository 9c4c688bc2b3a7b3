package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

const poolsConfig = `
[scheduler.phase3]
enabled = true
strict_pool_eligibility = true
hash_seed = 7

[[scheduler.phase3.pools]]
pool_id = "general"
required_services = ["asr-base"]

[[scheduler.phase3.pools]]
pool_id = "premium"
name = "Large models"
required_services = ["asr-large@>=2"]

[[scheduler.phase3.tenant_overrides]]
tenant_id = "acme"
pool_id = "premium"
`

// registerWith registers a node with a service of type asr that is ready.
func (s *testServer) registerWith(t *testing.T, id, service, version string) {
	t.Helper()
	callback := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(callback.Close)
	s.post(t, "/v1/node/register", `{"node_id":%q,"semantic_langs":["en","zh"],"max_concurrent_jobs":2,"callback_url":%q,
		"installed_services":[{"service_id":%q,"version":%q,"type":"asr","status":"ready"}]}`, id, callback.URL, service, version)
}

// TestPoolCommands checks the output of the commands that show pools.
func TestPoolCommands(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lingua.toml")
	if err := os.WriteFile(file, []byte(poolsConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "--config", file)
	s.registerWith(t, "g1", "asr-base", "1")
	s.registerWith(t, "p1", "asr-large", "2.1")
	s.registerWith(t, "old", "asr-large", "1.9")
	placed := s.post(t, "/v1/dispatch/f2f", `{"session_id":"talk","tenant_id":"acme","src_lang":"en","tgt_lang":"zh"}`)
	job := placed["job_id"].(string)
	for line, want := range map[string][]string{
		"pools": {
			"generation 1, core_only, strict, hash seed 7", "", "POOL NODES ONLINE READY SLOTS USED ASR NMT TTS TENANTS",
			"general 1 1 1 0 of 2 1/1 1/1 0/0 –", "premium 1 1 1 1 of 2 1/1 1/1 0/0 acme", "",
			"without a pool: 1 registered, 1 online, 1 ready", "old: lacks asr-base of the closest pool, general",
		},
		"pools premium": {
			"pool premium", "name Large models", "requires asr-large@>=2", "nodes 1 registered, 1 online, 1 ready", "slots 1 of 2 used",
			"asr ready on 1 of 1 nodes that have it", "nmt ready on 1 of 1 nodes that have it", "tts ready on 0 of 0 nodes that have it",
			"tenants acme", "", "NODE STATE", "p1 ready",
		},
		"explain --from en --to zh --tenant acme": {
			"en→zh: OK. 1 of 1 capable nodes can take the job now.", "OTHER_POOL 2", "", "The tenant is bound to the pool premium.",
			"POOL NODES CAPABLE FREE VERDICT", "premium 1 1 1 eligible", "general 1 1 1 not eligible: tenant bound to premium", "(none) 1 1 1 not eligible: tenant bound to premium",
			"", "NODE POOL IN FLIGHT VERDICT", "g1 general 0 of 2 OTHER_POOL", "old (none) 0 of 2 OTHER_POOL", "p1 premium 1 of 2 eligible",
		},
		"explain --from en --to fr": {
			"en→fr: NO_CAPABLE_NODE. No node of an eligible pool supports semantic(en) + nmt(en->fr).", "NMT_PAIR_UNSUPPORTED 2", "OTHER_POOL 1", "",
			"POOL NODES CAPABLE FREE VERDICT", "general 1 0 0 eligible, none free: missing_core_nmt_installed",
			"premium 1 0 0 eligible, none free: missing_core_nmt_installed", "(none) 1 0 0 not eligible: in no pool",
			"", "NODE POOL IN FLIGHT VERDICT", "g1 general 0 of 2 NMT_PAIR_UNSUPPORTED", "old (none) 0 of 2 OTHER_POOL", "p1 premium 1 of 2 NMT_PAIR_UNSUPPORTED",
		},
		"nodes p1": {
			"NODE HEALTH RESERVED RUNNING FOREIGN MAX LANGUAGES INSTANCE LAST SEEN", "p1 ready 1 0 0 2 en zh – now", "", "pool: premium",
		},
		"nodes old": {
			"NODE HEALTH RESERVED RUNNING FOREIGN MAX LANGUAGES INSTANCE LAST SEEN", "old ready 0 0 0 2 en zh – now", "", "no pool: lacks asr-base of the closest pool, general",
		},
	} {
		got := runCommand(t, append(strings.Fields(line), "--server", s.url)...)
		if got.code != exitOK || got.err != "" {
			t.Errorf("lingua %s: exit %d: %s", line, got.code, got.err)
		}
		if diff := cmp.Diff(want, rows(got.out)); diff != "" {
			t.Errorf("lingua %s: (-want +got)\n%s", line, diff)
		}
	}
	if got := runCommand(t, "jobs", job, "--server", s.url); !strings.Contains(got.out, "premium, to which its tenant was bound\n") {
		t.Errorf("lingua jobs does not show the pool:\n%s", got.out)
	}
	for line, into := range map[string]any{"pools": new(wire.PoolOverview), "pools general": new(wire.Pool)} {
		got := runCommand(t, append(strings.Fields(line), "--json", "--server", s.url)...)
		if err := json.Unmarshal([]byte(got.out), into); got.code != exitOK || err != nil {
			t.Errorf("lingua %s --json: exit %d, %v\n%s%s", line, got.code, err, got.out, got.err)
		}
	}
	if got := runCommand(t, "pools", "unknown", "--server", s.url); got.code != exitFailed || !strings.Contains(got.err, `there is no pool "unknown"`) {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

// TestPoolsWithoutPools checks the output of a scheduler without pools.
func TestPoolsWithoutPools(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	if got := runCommand(t, "pools", "--server", s.url); got.code != exitOK || got.out != "the nodes are not divided into pools (generation 0)\n" {
		t.Errorf("exit %d: %q %s", got.code, got.out, got.err)
	}
}

// table writes a table as a command does.
func table(t *testing.T, write func(*tabwriter.Writer)) string {
	t.Helper()
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
	write(w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestPoolTexts checks what the tables say in cases that are rare.
func TestPoolTexts(t *testing.T) {
	t.Parallel()
	overview := &wire.PoolOverview{
		Enabled: true, Generation: 3, MatchScope: "all_required", FileDiffers: true, Problem: "this instance cannot use the pools of generation 3: why",
		Pools: []wire.Pool{{PoolID: "large", Tenants: []string{"a", "b", "c", "d"}, TenantCount: 120, Nodes: wire.PoolNodes{Total: 9}, Examples: []wire.PoolNode{{NodeID: "n1", Reason: "DRAINED"}}}},
		WithoutPool: wire.WithoutPool{Nodes: wire.PoolNodes{Total: 7}, Examples: []wire.NodeWithoutPool{
			{NodeID: "x", PoolGap: wire.PoolGap{ClosestPool: "gone", ByCredential: true}},
			{NodeID: "y", Online: true, PoolGap: wire.PoolGap{ClosestPool: "large", MissingService: "s", ByCredential: true}},
		}},
	}
	want := []string{
		"generation 3, all_required, not strict, hash seed 0", "the configuration of this instance describes other pools: change it, or publish them with lingua config reload --publish-pools",
		"this instance cannot use the pools of generation 3: why", "", "POOL NODES ONLINE READY SLOTS USED ASR NMT TTS TENANTS",
		"large 9 0 0 0 of 0 0/0 0/0 0/0 a, b, c and 117 more", "", "without a pool: 7 registered, 0 online, 0 ready",
		"x (silent): its credential names the pool gone, which does not exist", "y: lacks s of the pool large, which its credential names", "and 5 more",
	}
	if diff := cmp.Diff(want, rows(table(t, func(w *tabwriter.Writer) { writePools(w, overview) }))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	shown := rows(table(t, func(w *tabwriter.Writer) { writePool(w, &overview.Pools[0]) }))
	if diff := cmp.Diff([]string{"tenants a, b, c, d and 116 more", "", "NODE STATE", "n1 DRAINED", "and 8 more"}, shown[len(shown)-5:]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, c := range []struct {
		pool wire.ExplainPool
		want string
	}{
		{wire.ExplainPool{Eligible: true, Reason: "full"}, "eligible, none free: full"},
		{wire.ExplainPool{Why: "no_pool", Fallback: true}, "only after all pools"},
		{wire.ExplainPool{Why: "no_pool", Reason: "full"}, "not eligible: in no pool"},
		{wire.ExplainPool{Why: "service_not_required", Service: "s", Fallback: true}, "only after eligible pools: does not require s"},
		{wire.ExplainPool{Why: "service_not_required", Service: "s"}, "not eligible: does not require s"},
	} {
		if got := describePool(&c.pool, ""); got != c.want {
			t.Errorf("%+v: %q, want %q", c.pool, got, c.want)
		}
	}
}

// TestPoolTablesFitTerminals checks the width of the tables: 80 columns for a usual fleet, 120 for a very large one.
func TestPoolTablesFitTerminals(t *testing.T) {
	t.Parallel()
	for width, n := range map[int]int{80: 99, 120: 99_999} {
		stage := wire.StageCount{Installed: n, Ready: n}
		overview := &wire.PoolOverview{Enabled: true, MatchScope: "all_required", Pools: []wire.Pool{{
			PoolID: "gpu-large", Nodes: wire.PoolNodes{Total: n, Online: n, Ready: n}, Slots: wire.PoolSlots{Total: 4 * n, Used: 3 * n},
			CoreServices: wire.PoolCoreServices{ASR: stage, NMT: stage, TTS: stage}, Tenants: []string{"acme"}, TenantCount: 1,
		}}}
		explained := &wire.ExplainResponse{SrcLang: "en", TgtLang: "zh", Pools: []wire.ExplainPool{
			{PoolID: "gpu-large", Eligible: true, Nodes: n, Capable: n, Reason: "missing_core_nmt_not_ready"}, {PoolID: "gpu-small", Why: "service_not_required", Service: "asr-large@>=2.1"},
		}}
		text := table(t, func(w *tabwriter.Writer) { writePools(w, overview) }) + table(t, func(w *tabwriter.Writer) { writeExplainedPools(w, explained) })
		for line := range strings.Lines(text) {
			if got := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); got > width {
				t.Errorf("%d columns, want at most %d: %s", got, width, line)
			}
		}
	}
}

// TestNodeServices checks how services are written on the command line.
func TestNodeServices(t *testing.T) {
	t.Parallel()
	c := nodeCmd{Service: []string{"asr-large@2.1=asr", "plain", "v@1", "typed=nmt"}}
	want := []wire.Service{
		{ServiceID: "asr-large", Version: "2.1", Type: "asr", Status: "ready"}, {ServiceID: "plain", Status: "ready"},
		{ServiceID: "v", Version: "1", Status: "ready"}, {ServiceID: "typed", Type: "nmt", Status: "ready"},
	}
	if diff := cmp.Diff(want, c.services()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestExplainedNodesOutsideOfPools: nodes that are chosen only after the eligible pools are not called eligible.
func TestExplainedNodesOutsideOfPools(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	writeExplanation(table, &wire.ExplainResponse{Nodes: []wire.ExplainNode{
		{NodeID: "n1", Eligible: true}, {NodeID: "n2", Reason: "NOT_PREFERRED_REGION", Preference: true}, {NodeID: "n3", Eligible: true, Fallback: true},
		{NodeID: "n4", Reason: "NOT_PREFERRED_REGION", Preference: true, Fallback: true}, {NodeID: "n5", Reason: "FULL", Fallback: true},
	}})
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"n1 0 of 0 eligible", "n2 0 of 0 NOT_PREFERRED_REGION (chosen only if no other node is eligible)", "n3 0 of 0 only after eligible pools",
		"n4 0 of 0 NOT_PREFERRED_REGION (chosen only after all others)", "n5 0 of 0 FULL",
	} {
		if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text+" ", want+" ") {
			t.Errorf("there is no %q in %s", want, text)
		}
	}
}

// TestDescribeGap checks the texts about nodes without a pool. Someone who has access to one tenant sees no names of pools.
func TestDescribeGap(t *testing.T) {
	t.Parallel()
	for want, gap := range map[string]wire.PoolGap{
		"it lacks services of every pool":                       {},
		"lacks x of the closest pool, p":                        {ClosestPool: "p", MissingService: "x"},
		"lacks x of the pool p, which its credential names":     {ClosestPool: "p", MissingService: "x", ByCredential: true},
		"its credential names the pool p, which does not exist": {ClosestPool: "p", ByCredential: true},
	} {
		if got := describeGap(&gap); got != want {
			t.Errorf("%+v: %q, want %q", gap, got, want)
		}
	}
}
