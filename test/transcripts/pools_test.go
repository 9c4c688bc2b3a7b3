package transcripts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/docpage"
	"github.com/lingua-scheduler/lingua/wire"
)

// blockOf returns the block of docs/pools.md with an info string.
func blockOf(t *testing.T, info string) *docpage.Block {
	t.Helper()
	for _, page := range loadPages(t) {
		blocks := page.Blocks()
		if i := slices.IndexFunc(blocks, func(b docpage.Block) bool { return b.Info == info }); i >= 0 {
			return &blocks[i]
		}
	}
	t.Fatalf("no page has a block %q", info)
	return nil
}

// eventually waits until a command of lingua prints something.
func (m *terminal) eventually(want string, args ...string) {
	m.t.Helper()
	if err := clustertest.Eventually(m.t.Context(), waitTimeout, func() error {
		if out := m.lingua(args...); !regexp.MustCompile(want).MatchString(out) {
			return fmt.Errorf("no %q in:\n%s", want, out)
		}
		return nil
	}); err != nil {
		m.t.Fatal(err)
	}
}

// startPools starts the scheduler and the nodes of the walk-through as docs/pools.md has them, and returns the terminal and the file of the
// configuration.
func startPools(t *testing.T) (m *terminal, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "lingua.toml")
	if err := os.WriteFile(file, []byte(blockOf(t, "toml pools 1").Body), 0o600); err != nil {
		t.Fatal(err)
	}
	i := newInstance(t, "a", []string{"LINGUA_SCHEDULER_MODEL_NOT_AVAILABLE_MARK_TTL_SECONDS=600"}) // longer than this test
	i.Args = []string{"--config", file}
	if err := i.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	binary, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	m = &terminal{t: t, binary: binary, instance: i}
	nodes := blockOf(t, "bash pools nodes").Commands()
	for _, line := range nodes {
		cmd := exec.Command(binary, docpage.Words(line)[1:]...)
		cmd.Env = []string{"LINGUA_URL=" + i.URL()}
		p, err := clustertest.StartProcess(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.KillAndWait)
	}
	if err := clustertest.Eventually(t.Context(), waitTimeout, func() error {
		var o wire.PoolOverview
		if err := json.Unmarshal([]byte(m.fetch("/api/v1/phase3/pools", "")), &o); err != nil {
			return err
		}
		ready := o.WithoutPool.Nodes.Ready
		for _, p := range o.Pools {
			ready += p.Nodes.Ready
		}
		if ready != len(nodes) {
			return fmt.Errorf("%d nodes are ready", ready)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return m, file
}

// reload replaces the configuration and records how it is loaded.
func (m *terminal) reload(file, block string) {
	m.t.Helper()
	if err := os.WriteFile(file, []byte(blockOf(m.t, block).Body), 0o600); err != nil {
		m.t.Fatal(err)
	}
	m.run("config reload")
}

// TestPoolsWalkThrough records the walk-through of docs/pools.md.
func TestPoolsWalkThrough(t *testing.T) {
	t.Parallel()
	m, file := startPools(t)
	m.run("pools")
	m.run("pools premium")
	m.compare("pools-overview")
	m.run("explain --from en --to zh --tenant acme")
	m.compare("pools-explain-bound")
	m.run("explain --from en --to zh")
	m.compare("pools-explain")

	const dispatch = `{"session_id":"room-1","tenant_id":"acme","src_lang":"en","tgt_lang":"zh"}`
	var placed wire.DispatchResponse
	if err := json.Unmarshal([]byte(m.curl("/v1/dispatch/f2f", dispatch)), &placed); err != nil || placed.JobID == "" {
		t.Fatal(errors.Join(err, errors.New(m.recorded.String())))
	}
	m.eventually(`(?m)^state +DONE$`, "jobs", placed.JobID)
	m.run("jobs " + placed.JobID)
	m.compare("pools-job")

	m.curl("/v1/node/model_not_available", `{"node_id":"big-1","service_id":"asr-large","reason":"runtime_error"}`)
	m.eventually("asr +ready on 0 of 1", "pools", "premium")
	m.run("pools premium")
	m.run("explain --from en --to zh --tenant acme")
	m.curl("/v1/dispatch/f2f", dispatch)
	m.compare("pools-not-ready")

	var counted []string
	for line := range strings.Lines(m.fetch("/metrics", "")) {
		if strings.HasPrefix(line, "phase3_pool") && !strings.HasSuffix(line, " 0\n") {
			counted = append(counted, line)
		}
	}
	m.record("curl -s $LINGUA_URL/metrics | grep ^phase3_pool | grep -v ' 0$'", strings.Join(counted, ""))
	m.compare("pools-metrics")

	m.reload(file, "toml pools 2")
	m.run("pools")
	m.run("explain --from en --to zh --service 'asr-large@>=2'")
	m.run("explain --from en --to zh --service asr-large@1.9")
	m.compare("pools-strict")

	m.reload(file, "toml pools 3")
	m.run("pools")
	m.compare("pools-buckets")
	var overview struct{ Pools []json.RawMessage }
	if err := json.Unmarshal([]byte(m.fetch("/api/v1/phase3/pools", "")), &overview); err != nil || len(overview.Pools) != 2 {
		t.Fatalf("%d pools: %v", len(overview.Pools), err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, overview.Pools[1], "", "  "); err != nil {
		t.Fatal(err)
	}
	m.record("curl -s $LINGUA_URL/api/v1/phase3/pools | jq '.pools[1]'", indented.String())
	m.compare("pools-api")
}
