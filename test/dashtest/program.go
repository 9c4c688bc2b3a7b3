package dashtest

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/clustertest"
)

// programs returns the directory of the programs that use the browser.
func programs() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "web", "dashboard")
}

// programTimeout is how long a program may take, on a busy machine.
const programTimeout = 8 * time.Minute

// Arguments is what a program is given.
type Arguments struct {
	URL      string            `json:"url"`
	Chromium string            `json:"chromium"`
	Control  string            `json:"control,omitempty"`  // where it can ask for faults
	Keys     map[string]string `json:"keys,omitempty"`     // absent: the scheduler has none
	Pictures string            `json:"pictures,omitempty"` // a directory for pictures
	Said     []string          `json:"said,omitempty"`     // what the nodes of the demo say that people said

	// Of programs that measure.
	Runs       int             `json:"runs,omitempty"`
	Nodes      int             `json:"nodes,omitempty"`
	Jobs       int             `json:"jobs,omitempty"`
	Dashboards int             `json:"dashboards,omitempty"`
	LastsMS    int64           `json:"lasts_ms,omitempty"`  // how long record.mjs records
	Recording  json.RawMessage `json:"recording,omitempty"` // the output of record.mjs
}

// RunProgram runs a program with the browser until it ends, fails the test as the program does, and returns what it printed.
func RunProgram(t testing.TB, file string, given Arguments) []byte {
	t.Helper()
	cmd := command(t, file, given)
	out, err := os.CreateTemp(t.TempDir(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	p, err := clustertest.StartProcess(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer p.KillAndWait()
	exit := p.WaitExit(programTimeout)
	printed, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	if exit != nil {
		t.Errorf("%s: %v\n%s", file, exit, printed)
	}
	return printed
}

// command returns the command of a program.
func command(t testing.TB, file string, given Arguments) *exec.Cmd {
	t.Helper()
	given.Chromium = chromium(t)
	argument, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	// it ends what it started itself
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "node", "browser/"+file, string(argument))
	cmd.Dir = programs()
	return cmd
}

// chromium returns the path of the browser.
func chromium(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it runs a browser")
	}
	if _, err := os.Stat(filepath.Join(programs(), "node_modules", "puppeteer-core")); err != nil {
		t.Fatalf("the dependencies of the dashboard are not installed; install them with: make tools (%v)", err)
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is not on PATH: make tools installs it")
	}
	return path
}

// OpenDashboards starts a program that does what open dashboards do. The function that it returns ends it and returns what it counted.
func OpenDashboards(b testing.TB, given Arguments) (stop func() string) {
	b.Helper()
	cmd := command(b, "replay.mjs", given)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "running" {
		b.Fatalf("the dashboards did not start: %s", lines.Text())
	}
	run.Sleep(b.Context(), 2*time.Second) // until their streams are open
	return func() string {
		_ = in.Close()
		lines.Scan()
		defer func() { _ = cmd.Wait() }()
		return lines.Text()
	}
}
